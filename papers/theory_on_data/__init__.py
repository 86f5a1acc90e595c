"""The theory of focal loss on real predictions."""
