"""Answers that were given before, held against a corpus: which of two systems errs less."""
