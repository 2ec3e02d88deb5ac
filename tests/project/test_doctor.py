"""The doctor sees what is wrong, tells it once, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.project.doctor.findings import KINDS
from tests.project import indexing
from tests.project.inner import around, diagnose
from tests.project.world import ITEMS, SHA, World, item


def codes(world: World, *severities: str) -> list[tuple[str, str | None]]:
    found = world.project.doctor.check().findings
    return [
        (one.code, one.subject) for one in found if not severities or one.severity in severities
    ]


def test_a_sound_project_has_no_findings(world: World) -> None:
    before = world.everything()
    diagnosis = world.project.doctor.check()
    assert diagnosis.healthy
    assert diagnosis.findings == ()
    assert diagnosis.project_revision == world.project.info().revision
    assert diagnosis.schema_version == "0001"
    assert diagnose(world.root, around(world.clock)) == diagnosis
    assert world.everything() == before


def test_lapsed_claims_and_sessions_without_end(world: World) -> None:
    project = world.project
    lapsed = project.sessions.start("A", "codex", claim=True, ttl_ms=10)
    holding = project.sessions.start("B", "codex", claim=True)
    idle = project.sessions.start("C", "codex")
    world.clock.advance(10)
    assert lapsed.claim is not None
    assert codes(world) == [
        ("claim_expired", lapsed.claim.id),
        ("session_open", idle.session.id),
        ("session_open", lapsed.session.id),
    ]
    assert project.doctor.check().healthy
    assert holding.session.id not in [subject for _code, subject in codes(world)]


def test_what_another_program_did_to_it(world: World) -> None:
    project = world.project
    claim = project.sessions.start("A", "codex", claim=True).claim
    assert claim is not None
    raw = world.raw()
    raw.execute("UPDATE sessions SET state = 'ended', ended_at_ms = 5")
    raw.execute("UPDATE projects SET revision = revision + 1")
    raw.execute("PRAGMA foreign_keys = OFF")
    raw.execute(
        "INSERT INTO checkpoints SELECT tenant, project, 'k_1', 's_nobody', 'x', 'y', '[]', NULL, "
        "'[]', 'codex', 1, 1 FROM projects"
    )
    raw.close()
    found = codes(world, "error")
    assert ("claim_orphaned", claim.id) in found
    assert ("foreign_key", "checkpoints") in found
    assert ("revision_gap", None) in found


def test_sources_that_changed(world: World) -> None:
    source = world.root / "work.yaml"
    source.write_bytes(b"something else")
    assert codes(world) == [("source_changed", "work.yaml")]
    source.unlink()
    finding = world.project.doctor.check().findings[0]
    assert finding.details == {"indexed_sha256": SHA, "sha256": None}


def test_edges_that_lead_elsewhere_stay(world: World) -> None:
    """An edge into another repository is told, and survives the doctor and its repair."""
    project = world.project
    edges = ("other-repo:42", "A", "nowhere")
    indexing.replace(project, [*ITEMS, item("D", depends_on=edges)])
    claim = project.sessions.start("A", "codex", claim=True, ttl_ms=10).claim
    assert claim is not None
    world.clock.advance(10)
    found = project.doctor.check().findings
    loose = {one.code: one for one in found if one.code.startswith("dependency")}
    assert loose["dependency_external"].details == {"depends_on": "other-repo:42"}
    assert "cannot be verified" in loose["dependency_external"].message
    assert loose["dependency_unknown"].details == {"depends_on": "nowhere"}
    before = world.rows("work_dependencies")
    project.doctor.expire_claim(claim.id, "elapsed", expected_revision=project.info().revision)
    project.doctor.check()
    assert world.rows("work_dependencies") == before
    assert project.work.show("D").work.depends_on == edges


def test_a_clock_that_was_set_back(world: World) -> None:
    world.clock.advance(-5000)
    finding = world.project.doctor.check().findings[0]
    assert (finding.code, finding.details) == ("clock_behind", {"behind_ms": 5000})


def test_many_of_a_kind_are_summed_up(world: World) -> None:
    for number in range(55):
        world.project.sessions.start("A", f"agent-{number}")
    found = world.project.doctor.check().findings
    assert len(found) == 51
    assert (found[-1].code, found[-1].severity) == ("more_findings", "info")
    assert found[-1].details == {"of": "session_open", "more": 5}


def test_a_database_without_its_log(world: World) -> None:
    world.project.close()
    raw = world.raw()
    assert raw.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    raw.close()
    diagnosis = diagnose(world.root, around(world.clock))
    assert [finding.code for finding in diagnosis.findings] == ["journal_mode"]
    world.open().close()
    assert diagnose(world.root, around(world.clock)).findings == ()


def test_it_looks_with_what_the_project_was_opened_with(world: World, tmp_path: Path) -> None:
    """The table of mounts that counted for the opening counts for the doctor too."""
    table = tmp_path / "mounts"
    table.write_text("none / ext4 rw 0 0\n")
    project = world.open(table=table)
    assert project.doctor.check().findings == ()
    table.write_text("server:/ / nfs4 rw 0 0\n")
    found = project.doctor.check()
    assert [one.code for one in found.findings] == ["filesystem_unsupported"]
    assert not found.healthy


@pytest.mark.parametrize("code", KINDS)
def test_each_kind_says_what_to_do(code: str) -> None:
    named = {"wanted": "600", "path": "/a", "revision": 7, "session": "s_2"}
    hint = KINDS[code].hint.format(subject="s_1", **named)
    assert 10 < len(hint) < 200
    assert "{" not in hint


@pytest.mark.parametrize(
    "code",
    [
        "claim_orphaned",
        "event_gap",
        "foreign_key",
        "guard_missing",
        "integrity",
        "revision_gap",
        "project_corrupt",
    ],
)
def test_a_copy_is_put_back_without_the_old_log(world: World, code: str) -> None:
    """SQLite would play a log that stays into the copy, which is damaged then."""
    if code == "project_corrupt":
        world.project.close()
        (world.root / ".callboard" / "project.db").write_bytes(b"no database" * 500)
        (found,) = diagnose(world.root, around(world.clock)).findings
        hint = found.hint
        assert found.code == code
    else:
        hint = KINDS[code].hint
    places = [hint.index(word) for word in ("stop all", "db-wal", "db-shm", "from a copy")]
    assert places == sorted(places)


def test_events_that_are_gone(world: World) -> None:
    raw = world.raw()
    raw.execute(
        "INSERT INTO events (tenant, project, seq, id, type, revision, at_ms, body) SELECT tenant, "
        "project, last_seq + 3, 'e_1', 'note.taken', revision, clock_ms, '{}' FROM projects"
    )
    raw.close()
    (finding,) = world.project.doctor.check().findings
    assert (finding.code, finding.severity) == ("event_gap", "error")
    assert finding.details["last"] == int(finding.details["events"]) + 2
