"""Bytes that rows keep on the disk, and owners of models and reviews.

Revision 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SIZED = ("corpora", "jobs", "review_files")
OWNED = ("models", "reviews")


def upgrade() -> None:
    """To this revision. What was there before counts nothing, and belongs to no key."""
    for table in SIZED:
        op.add_column(table, sa.Column("bytes", sa.BigInteger(), nullable=False, server_default="0"))
    for table in OWNED:
        op.add_column(table, sa.Column("owner", sa.String(length=40), nullable=False, server_default=""))
    op.create_index(op.f("ix_reviews_owner_id"), "reviews", ["owner", "id"])


def downgrade() -> None:
    """Back from it."""
    op.drop_index(op.f("ix_reviews_owner_id"), "reviews")
    for table in OWNED:
        op.drop_column(table, "owner")
    for table in SIZED:
        op.drop_column(table, "bytes")
