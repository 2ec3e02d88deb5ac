"""The first tables: work, branches, sessions, claims, events, evidence, receipts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# What tells this program's files from other programs'.
MARK = "PRAGMA application_id = 1128416336"

# Rows that are written once, and what may come only once in each.
PROTECTED = {"events": ("seq", "id"), "receipts": ("request_id",)}


def upgrade() -> None:
    """Make all tables, then what keeps the history as it is."""
    make_projects()
    make_branches()
    make_events()
    make_goals()
    make_receipts()
    make_sources()
    make_work_items()
    make_selections()
    make_sessions()
    make_work_dependencies()
    make_checkpoints()
    make_claims()
    make_evidence()
    make_completions()
    if op.get_bind().dialect.name == "sqlite":
        op.execute(MARK)
        for table, keys in PROTECTED.items():
            protect(table, keys)


def protect(table: str, keys: tuple[str, ...]) -> None:
    """Triggers that refuse every change of a row that is there."""
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER keep_{table}_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"
        )
    for key in keys:
        op.execute(
            f"CREATE TRIGGER keep_{table}_insert_{key} BEFORE INSERT ON {table} "
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE tenant = NEW.tenant "
            f"AND project = NEW.project AND {key} = NEW.{key}) "
            f"BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"
        )


def make_projects() -> None:
    """The table `projects`."""
    op.create_table(
        "projects",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("revision", WHOLE, nullable=False),
        sa.Column("last_seq", WHOLE, nullable=False),
        sa.Column("clock_ms", WHOLE, nullable=False),
        sa.Column("created_at_ms", WHOLE, nullable=False),
        sa.CheckConstraint(
            "clock_ms BETWEEN 0 AND 9007199254740991", name=op.f("ck_projects_clock_ms")
        ),
        sa.CheckConstraint("revision >= 1", name=op.f("ck_projects_revision")),
        sa.PrimaryKeyConstraint("tenant", "project", name=op.f("pk_projects")),
        sa.UniqueConstraint("tenant", "key", name=op.f("uq_projects_tenant_key")),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )


def make_branches() -> None:
    """The table `branches`."""
    op.create_table(
        "branches",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("twin", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("created_at_ms", WHOLE, nullable=False),
        sa.Column("closed_at_ms", WHOLE, nullable=True),
        sa.CheckConstraint(
            "(state = 'closed') = (closed_at_ms IS NOT NULL)", name=op.f("ck_branches_closed_at_ms")
        ),
        sa.CheckConstraint("state IN ('open', 'closed')", name=op.f("ck_branches_state")),
        sa.ForeignKeyConstraint(
            ["tenant", "project"],
            ["projects.tenant", "projects.project"],
            name=op.f("fk_branches_tenant_project"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "name", name=op.f("pk_branches")),
        sa.UniqueConstraint(
            "tenant", "project", "twin", name=op.f("uq_branches_tenant_project_twin")
        ),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )


def make_events() -> None:
    """The table `events`."""
    op.create_table(
        "events",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("seq", WHOLE, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("work", sa.Text(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("session", sa.Text(), nullable=True),
        sa.Column("revision", WHOLE, nullable=False),
        sa.Column("at_ms", WHOLE, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project"],
            ["projects.tenant", "projects.project"],
            name=op.f("fk_events_tenant_project"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "seq", name=op.f("pk_events")),
        sa.UniqueConstraint("tenant", "project", "id", name=op.f("uq_events_tenant_project_id")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_events_tenant_project_branch_seq"),
        "events",
        ["tenant", "project", "branch", "seq"],
        unique=False,
    )
    op.create_index(
        op.f("ix_events_tenant_project_session_seq"),
        "events",
        ["tenant", "project", "session", "seq"],
        unique=False,
    )
    op.create_index(
        op.f("ix_events_tenant_project_type_seq"),
        "events",
        ["tenant", "project", "type", "seq"],
        unique=False,
    )
    op.create_index(
        op.f("ix_events_tenant_project_work_seq"),
        "events",
        ["tenant", "project", "work", "seq"],
        unique=False,
    )


def make_goals() -> None:
    """The table `goals`."""
    op.create_table(
        "goals",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("twin", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("source_file", sa.Text(), nullable=False),
        sa.Column("source_sha256", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project"],
            ["projects.tenant", "projects.project"],
            name=op.f("fk_goals_tenant_project"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "key", name=op.f("pk_goals")),
        sa.UniqueConstraint("tenant", "project", "twin", name=op.f("uq_goals_tenant_project_twin")),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )


def make_receipts() -> None:
    """The table `receipts`."""
    op.create_table(
        "receipts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("revision", WHOLE, nullable=False),
        sa.Column("at_ms", WHOLE, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project"],
            ["projects.tenant", "projects.project"],
            name=op.f("fk_receipts_tenant_project"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "request_id", name=op.f("pk_receipts")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def make_sources() -> None:
    """The table `sources`."""
    op.create_table(
        "sources",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", WHOLE, nullable=False),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("indexed_revision", WHOLE, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project"],
            ["projects.tenant", "projects.project"],
            name=op.f("fk_sources_tenant_project"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "path", name=op.f("pk_sources")),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )


def make_work_items() -> None:
    """The table `work_items`."""
    op.create_table(
        "work_items",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("twin", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("goal", sa.Text(), nullable=True),
        sa.Column("acceptance", sa.Text(), nullable=False),
        sa.Column("next_action", sa.Text(), nullable=True),
        sa.Column("depends_on", sa.Text(), nullable=False),
        sa.Column("workstream", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("paths", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("priority", WHOLE, nullable=True),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("source_file", sa.Text(), nullable=False),
        sa.Column("source_sha256", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project"],
            ["projects.tenant", "projects.project"],
            name=op.f("fk_work_items_tenant_project"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "key", name=op.f("pk_work_items")),
        sa.UniqueConstraint(
            "tenant", "project", "twin", name=op.f("uq_work_items_tenant_project_twin")
        ),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )
    op.create_index(
        op.f("ix_work_items_tenant_project_position"),
        "work_items",
        ["tenant", "project", "position"],
        unique=False,
    )
    op.create_index(
        op.f("ix_work_items_tenant_project_status"),
        "work_items",
        ["tenant", "project", "status"],
        unique=False,
    )


def make_selections() -> None:
    """The table `selections`."""
    op.create_table(
        "selections",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "branch"],
            ["branches.tenant", "branches.project", "branches.name"],
            name=op.f("fk_selections_tenant_project_branch"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "person", name=op.f("pk_selections")),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )


def make_sessions() -> None:
    """The table `sessions`."""
    op.create_table(
        "sessions",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("work", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("predecessor", sa.Text(), nullable=True),
        sa.Column("started_at_ms", WHOLE, nullable=False),
        sa.Column("ended_at_ms", WHOLE, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(state = 'active') = (ended_at_ms IS NULL)", name=op.f("ck_sessions_ended_at_ms")
        ),
        sa.CheckConstraint(
            "state IN ('active', 'interrupted', 'ended', 'handed_off')",
            name=op.f("ck_sessions_state"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "branch"],
            ["branches.tenant", "branches.project", "branches.name"],
            name=op.f("fk_sessions_tenant_project_branch"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "predecessor"],
            ["sessions.tenant", "sessions.project", "sessions.id"],
            name=op.f("fk_sessions_tenant_project_predecessor"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "id", name=op.f("pk_sessions")),
        sa.UniqueConstraint(
            "tenant", "project", "position", name=op.f("uq_sessions_tenant_project_position")
        ),
        sa.UniqueConstraint(
            "tenant", "project", "predecessor", name=op.f("uq_sessions_tenant_project_predecessor")
        ),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )
    op.create_index(
        op.f("ix_sessions_tenant_project_state_branch_position"),
        "sessions",
        ["tenant", "project", "state", "branch", "position"],
        unique=False,
    )
    op.create_index(
        op.f("ix_sessions_tenant_project_work_position"),
        "sessions",
        ["tenant", "project", "work", "position"],
        unique=False,
    )


def make_work_dependencies() -> None:
    """The table `work_dependencies`."""
    op.create_table(
        "work_dependencies",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("work", sa.Text(), nullable=False),
        sa.Column("depends_on", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "work"],
            ["work_items.tenant", "work_items.project", "work_items.key"],
            name=op.f("fk_work_dependencies_tenant_project_work"),
        ),
        sa.PrimaryKeyConstraint(
            "tenant", "project", "work", "depends_on", name=op.f("pk_work_dependencies")
        ),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )
    op.create_index(
        op.f("ix_work_dependencies_tenant_project_depends_on"),
        "work_dependencies",
        ["tenant", "project", "depends_on"],
        unique=False,
    )


def make_checkpoints() -> None:
    """The table `checkpoints`."""
    op.create_table(
        "checkpoints",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("next_action", sa.Text(), nullable=False),
        sa.Column("open_loops", sa.Text(), nullable=False),
        sa.Column("context_sha256", sa.Text(), nullable=True),
        sa.Column("artifacts", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("at_ms", WHOLE, nullable=False),
        sa.Column("revision", WHOLE, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "session"],
            ["sessions.tenant", "sessions.project", "sessions.id"],
            name=op.f("fk_checkpoints_tenant_project_session"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "id", name=op.f("pk_checkpoints")),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )
    op.create_index(
        op.f("ix_checkpoints_tenant_project_session_revision"),
        "checkpoints",
        ["tenant", "project", "session", "revision"],
        unique=False,
    )


def make_claims() -> None:
    """The table `claims`."""
    op.create_table(
        "claims",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("work", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("fence", WHOLE, nullable=False),
        sa.Column("acquired_at_ms", WHOLE, nullable=False),
        sa.Column("expires_at_ms", WHOLE, nullable=True),
        sa.Column("released_at_ms", WHOLE, nullable=True),
        sa.CheckConstraint(
            "(state = 'active') = (released_at_ms IS NULL)", name=op.f("ck_claims_released_at_ms")
        ),
        sa.CheckConstraint(
            "state IN ('active', 'released', 'expired', 'transferred')",
            name=op.f("ck_claims_state"),
        ),
        sa.CheckConstraint(
            "expires_at_ms > acquired_at_ms AND expires_at_ms <= 9007199254740991",
            name=op.f("ck_claims_expires_at_ms"),
        ),
        sa.CheckConstraint("fence >= 1", name=op.f("ck_claims_fence")),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "session"],
            ["sessions.tenant", "sessions.project", "sessions.id"],
            name=op.f("fk_claims_tenant_project_session"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "id", name=op.f("pk_claims")),
        sa.UniqueConstraint(
            "tenant", "project", "work", "fence", name=op.f("uq_claims_tenant_project_work_fence")
        ),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )
    op.create_index(
        op.f("ix_claims_tenant_project_session_fence"),
        "claims",
        ["tenant", "project", "session", "fence"],
        unique=False,
    )
    op.create_index(
        op.f("ix_claims_tenant_project_state"),
        "claims",
        ["tenant", "project", "state"],
        unique=False,
    )
    op.create_index(
        "uq_claims_active",
        "claims",
        ["tenant", "project", "work"],
        unique=True,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )


def make_evidence() -> None:
    """The table `evidence`."""
    op.create_table(
        "evidence",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", WHOLE, nullable=False),
        sa.Column("work", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("covers", sa.Text(), nullable=False),
        sa.Column("ref", sa.Text(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("at_ms", WHOLE, nullable=False),
        sa.Column("revision", WHOLE, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "branch"],
            ["branches.tenant", "branches.project", "branches.name"],
            name=op.f("fk_evidence_tenant_project_branch"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "session"],
            ["sessions.tenant", "sessions.project", "sessions.id"],
            name=op.f("fk_evidence_tenant_project_session"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "id", name=op.f("pk_evidence")),
        sa.UniqueConstraint(
            "tenant", "project", "position", name=op.f("uq_evidence_tenant_project_position")
        ),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )
    op.create_index(
        op.f("ix_evidence_tenant_project_work_position"),
        "evidence",
        ["tenant", "project", "work", "position"],
        unique=False,
    )


def make_completions() -> None:
    """The table `completions`."""
    op.create_table(
        "completions",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("work", sa.Text(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=False),
        sa.Column("fence", WHOLE, nullable=False),
        sa.Column("criteria", sa.Text(), nullable=False),
        sa.Column("acceptance", sa.Text(), nullable=False),
        sa.Column("source_sha256", sa.Text(), nullable=False),
        sa.Column("at_ms", WHOLE, nullable=False),
        sa.Column("revision", WHOLE, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "branch"],
            ["branches.tenant", "branches.project", "branches.name"],
            name=op.f("fk_completions_tenant_project_branch"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "claim"],
            ["claims.tenant", "claims.project", "claims.id"],
            name=op.f("fk_completions_tenant_project_claim"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "project", "session"],
            ["sessions.tenant", "sessions.project", "sessions.id"],
            name=op.f("fk_completions_tenant_project_session"),
        ),
        sa.PrimaryKeyConstraint("tenant", "project", "id", name=op.f("pk_completions")),
        sqlite_strict=True,
        sqlite_with_rowid=True,
    )
    op.create_index(
        op.f("ix_completions_tenant_project_work_revision"),
        "completions",
        ["tenant", "project", "work", "revision"],
        unique=False,
    )
