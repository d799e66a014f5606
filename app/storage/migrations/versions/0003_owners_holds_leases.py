"""Owners of jobs and corpora, holds on blobs, leases between services.

Revision 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision. What was there before belongs to no key: admin keys see it."""
    for table in ("jobs", "corpora"):
        op.add_column(table, sa.Column("owner", sa.String(length=40), nullable=False, server_default=""))
        op.create_index(op.f(f"ix_{table}_owner_id"), table, ["owner", "id"])
    op.create_table(
        "holds",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("holder", sa.String(length=40), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "holder", name=op.f("pk_holds")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("holder", sa.String(length=200), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )


def downgrade() -> None:
    """Back from it."""
    op.drop_table("leases")
    op.drop_table("holds")
    for table in ("jobs", "corpora"):
        op.drop_index(op.f(f"ix_{table}_owner_id"), table)
        op.drop_column(table, "owner")
