"""Alembic migrations and how they are run."""
