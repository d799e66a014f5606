"""Pronunciations of words that no dictionary has: a chain over letters, each of which is answered by nought to two phones."""
