"""A PostgreSQL of these tests, where its programs are installed."""

from tests.app.jobs.postgres import postgres

__all__ = ["postgres"]
