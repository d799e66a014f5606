"""What Alembic runs: the migrations on the connection that `app/storage/migrations/migrate.py` hands over."""

from __future__ import annotations

from alembic import context

from phonechain.app.storage.tables import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
    transaction_per_migration=False,
)
context.run_migrations()
