"""One arm judged: from predictions to numbers per sample, and from these to metrics, curves and rows."""
