"""Alignment and recognition for people: transcripts to words, answers to JSON and annotation files."""
