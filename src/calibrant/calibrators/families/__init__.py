"""What several calibrators share: affine maps of logits, functions of an event's probability, mixtures."""
