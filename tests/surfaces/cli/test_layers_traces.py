"""`callboard layers traces …`: what is listed, compared, exported and taken away."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.surfaces.cli.layered import Layered

ATTEMPTS = ["0001_worker", "0002_worker"]
OUTPUT = {"stdout.log": b"hello\n", "stderr.log": b"more\n"}


@pytest.fixture
def here(tmp_path: Path) -> Layered:
    """A repository with one tree that has ended after two attempts."""
    made = Layered.make(tmp_path / "repository")
    made.begin()
    assert made.call("run").status == 1
    return made


def trace(here: Layered, attempt: str) -> Path:
    (found,) = (here.folder / ".callboard" / "layers" / "traces").glob(
        f"*/sessions/*/attempts/{attempt}"
    )
    return found


def standings(here: Layered) -> dict[str, str]:
    return {one["attempt_id"]: one["standing"] for one in here.ask("traces", "list")["traces"]}


def test_every_attempt_has_a_sealed_trace(here: Layered) -> None:
    assert standings(here) == dict.fromkeys(ATTEMPTS, "sealed")
    for one in here.ask("traces", "list")["traces"]:
        assert one["finished"]
        assert one["size_bytes"] >= 11
    assert {name: (trace(here, ATTEMPTS[0]) / name).read_bytes() for name in OUTPUT} == OUTPUT
    header, *rows = here.call("traces", "list").stdout.splitlines()
    assert header.split() == ["layer", "attempt", "trace", "files", "bytes", "sealed"]
    assert [row.split()[1:3] for row in rows] == [[name, "sealed"] for name in ATTEMPTS]


def test_an_attempt_under_way_has_an_open_trace_that_is_kept(tmp_path: Path) -> None:
    here = Layered.make(tmp_path / "repository")
    here.begin()
    here.ask("run", "--once")
    assert here.call("traces", "inspect", "0001_worker", "--json").error["code"] in (
        *("trace_unsealed", "trace_missing"),
    )
    assert here.ask("traces", "prune", "--keep", "0") == {"pruned": [], "size_bytes": 0}


def test_each_difference_from_the_seal_is_told(here: Layered) -> None:
    sound = here.ask("traces", "inspect", "0001_worker")
    assert (sound["sound"], sound["changed"], sound["missing"], sound["added"]) == (
        True,
        [],
        [],
        [],
    )
    folder = trace(here, "0001_worker")
    (folder / "stdout.log").write_bytes(b"HELLO\n")
    (folder / "stderr.log").unlink()
    (folder / "new").touch()
    found = here.call("traces", "inspect", "0001_worker", "--json")
    assert found.status == 3
    assert {name: found.json[name] for name in ("sound", "changed", "missing", "added")} == {
        "sound": False,
        "changed": ["stdout.log"],
        "missing": ["stderr.log"],
        "added": ["new"],
    }
    told = here.call("traces", "inspect", "0001_worker")
    assert told.status == 3
    assert told.stdout.splitlines()[2:] == [
        "changed: stdout.log",
        "missing: stderr.log",
        "added: new",
    ]
    assert here.call("traces", "inspect", "0002_worker").stdout.endswith(
        "Everything is as it was sealed.\n"
    )
    refused = here.call("traces", "export", "0001_worker", here.folder / "t.tar.gz", "--json")
    assert refused.error["code"] == "trace_changed"
    assert not (here.folder / "t.tar.gz").exists()


def test_an_export_is_the_same_each_time_and_replaces_nothing(
    here: Layered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = here.ask("traces", "export", "0001_worker", "one.tar.gz")
    target = tmp_path / "one.tar.gz"
    assert made == {
        "attempt_id": "0001_worker",
        "file": str(target),
        "size_bytes": target.stat().st_size,
    }
    with tarfile.open(target) as archive:
        names = archive.getnames()
        stream = archive.extractfile("0001_worker/stdout.log")
        assert stream is not None
        assert stream.read() == b"hello\n"
    assert "0001_worker/manifest.json" in names
    before = target.read_bytes()
    again = here.call("traces", "export", "0001_worker", "one.tar.gz", "--json")
    assert again.error["code"] == "export_failed"
    here.ask("traces", "export", "0001_worker", "two.tar.gz")
    assert target.read_bytes() == before == (tmp_path / "two.tar.gz").read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == [
        "one.tar.gz",
        "two.tar.gz",
    ]


def test_pruning_takes_what_both_conditions_say_and_leaves_the_seals(here: Layered) -> None:
    assert here.ask("traces", "prune", "--older-than-hours", "1")["pruned"] == []
    assert here.ask("traces", "prune", "--keep", "0", "--older-than-hours", "1")["pruned"] == []
    assert standings(here) == dict.fromkeys(ATTEMPTS, "sealed")
    done = here.ask("traces", "prune", "--keep", "1")
    assert [one["attempt_id"] for one in done["pruned"]] == ["0001_worker"]
    assert done["size_bytes"] == done["pruned"][0]["size_bytes"] > 0
    assert standings(here) == {"0001_worker": "pruned", "0002_worker": "sealed"}
    gone = here.call("traces", "inspect", "0001_worker", "--json")
    assert gone.error["code"] == "trace_pruned"
    assert here.call("traces", "prune", "--keep", "0").stdout.startswith("took 1 trace away, ")
    assert here.ask("check") == {"findings": []}


def test_an_attempt_of_several_layers_has_to_be_told_apart(here: Layered) -> None:
    first = here.ask("status")["layers"][0]["session_id"]
    second = here.begin("Another")
    assert here.call("run", "--session", second).status == 1
    error = here.call("traces", "inspect", "0001_worker", "--json").error
    assert error["code"] == "trace_ambiguous"
    assert error["details"]["candidates"] == sorted([first, second])
    for session in (first, second):
        found = here.ask("traces", "inspect", "0001_worker", "--session", session)
        assert found["trace"]["session_id"] == session
    assert {
        one["session_id"] for one in here.ask("traces", "list", "--session", second)["traces"]
    } == {second}
    done = here.ask("traces", "prune", "--keep", "0", "--session", second)
    assert {one["session_id"] for one in done["pruned"]} == {second}
    assert here.ask("traces", "inspect", "0001_worker", "--session", first)["sound"]
