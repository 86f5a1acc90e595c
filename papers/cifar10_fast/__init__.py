"""The papers' losses on CIFAR-10 at an accuracy near theirs; registered, and not run yet."""
