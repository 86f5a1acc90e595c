"""Calibrators in other people's software: ONNX, scikit-learn. Each module imports what it needs, no more."""
