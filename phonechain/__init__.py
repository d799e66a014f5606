"""Phonechain: the phones of speech, where they begin, and an honest certainty of both."""
