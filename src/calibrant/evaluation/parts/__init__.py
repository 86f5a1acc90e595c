"""Tables of any size, part by part: sums over batches of samples, and the usual stages."""
