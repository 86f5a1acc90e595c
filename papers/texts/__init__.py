"""A convolutional network on 20 Newsgroups and AG News, with the losses of two papers."""
