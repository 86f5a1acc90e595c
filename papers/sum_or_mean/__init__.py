"""The loss summed over the batch with clipped gradients, against the mean."""
