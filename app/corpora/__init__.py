"""Corpora of the service: added, listed, and read by jobs."""
