"""The losses on Fashion-MNIST, as it is and long-tailed."""
