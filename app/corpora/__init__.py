"""Corpora of the service: taken in, listed, and read again by jobs."""
