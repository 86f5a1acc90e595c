"""Mathematics: pure functions on tensors and arrays, used only inside the package."""
