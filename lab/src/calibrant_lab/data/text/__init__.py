"""Texts and parse trees: readers, words, vocabularies and word vectors."""
