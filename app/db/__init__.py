"""The database: tables, sessions, migrations."""
