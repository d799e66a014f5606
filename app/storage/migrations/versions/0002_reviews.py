"""Reviews: files under review, and the log of operations on their segments.

Revision 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    op.create_table(
        "reviews",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviews")),
    )
    op.create_table(
        "review_files",
        sa.Column("review", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("annotation_name", sa.Text(), nullable=False),
        sa.Column("speaker", sa.Text(), nullable=True),
        sa.Column("sound", sa.String(length=64), nullable=False),
        sa.Column("annotation", sa.String(length=64), nullable=False),
        sa.Column("playback", sa.String(length=64), nullable=False),
        sa.Column("peaks", sa.String(length=64), nullable=False),
        sa.Column("answer", sa.String(length=64), nullable=False),
        sa.Column("format", sa.String(length=40), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("tier_index", sa.Integer(), nullable=False),
        sa.Column("duration", sa.Double(), nullable=False),
        sa.Column("original_rate", sa.Integer(), nullable=True),
        sa.Column("segments", sa.Integer(), nullable=False),
        sa.Column("model", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["review"], ["reviews.id"], name=op.f("fk_review_files_review"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("review", "number", name=op.f("pk_review_files")),
    )
    op.create_table(
        "review_operations",
        sa.Column("review", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("file", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("target", sa.Integer(), nullable=True),
        sa.Column("key", sa.String(length=40), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["review"], ["reviews.id"], name=op.f("fk_review_operations_review"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("review", "number", name=op.f("pk_review_operations")),
    )


def downgrade() -> None:
    """Back from it."""
    op.drop_table("review_operations")
    op.drop_table("review_files")
    op.drop_table("reviews")
