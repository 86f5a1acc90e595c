"""Losses on CIFAR-10, summed and averaged."""
