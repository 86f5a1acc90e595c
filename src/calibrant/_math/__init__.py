"""The mathematics: pure functions on tensors and arrays, known to nobody outside the package."""
