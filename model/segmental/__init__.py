"""Segments without boundaries: a segmental (semi-Markov) CRF, alignment to phone graphs, recognition."""
