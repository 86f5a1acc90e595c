"""Probabilities of networks beside the judgements of people."""
