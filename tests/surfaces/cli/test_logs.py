"""The ends of a run's logs, as far as this machine has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.cli.conftest import Person, shell

SCRIPT = (
    "printf 'one\\\\ntwo \\\\033[31m\\\\342\\\\200\\\\256 \\\\377 end\\\\n'; echo wrong >&2; exit 3"
)
NASTY = "two \\x1b[31m\\u202e \\xff end"


@pytest.fixture
def failed(person: Person) -> Person:
    """A person whose one run wrote what no terminal should be given."""
    recipe = f'command = ["callboard", "worker", "exec", "--", "sh", "-c", "{SCRIPT}"]\n'
    (person.folder / ".callboard" / "workers" / "default.toml").write_text(recipe)
    person.configure("[work_queue.retry]\nmax_attempts = 1\n")
    person.submit('{"graph":"g","nodes":[{"key":"a","payload":{}},{"key":"b","payload":{}}]}')
    person.done("cancel", "b", "--reason", "late")
    assert shell(person, "run", "--until-idle").status == 0
    return person


def test_the_hint_of_a_failed_node_leads_to_its_logs(failed: Person) -> None:
    found = failed.ask("show", "a")
    assert found["next"] == "callboard logs a"
    run_id = found["claims"][0]["run_id"]
    text = failed.done("logs", "a").stdout
    assert text.startswith(f"run {run_id} of a\n")
    assert f"\nworker.stdout.log: 23 bytes\n  one\n  {NASTY}\n" in text
    assert "\nworker.stderr.log: 6 bytes\n  wrong\n" in text
    assert "\x1b" not in text
    document = failed.ask("logs", "--run", run_id[:8])
    assert (document["run_id"], document["names"]) == (run_id, ["a"])
    assert document["provenance"] == "live"
    logs = {one["name"]: one for one in document["logs"]}
    assert logs["worker.stdout.log"]["text"] == "one\ntwo \x1b[31m\u202e \\xff end\n"
    assert logs["worker.stdout.log"]["is_cut"] is False


def test_only_the_end_of_a_long_log_is_shown(failed: Person) -> None:
    document = failed.ask("logs", "a", "--tail", "4")
    logs = {one["name"]: one for one in document["logs"]}
    assert logs["worker.stdout.log"] == {
        "name": "worker.stdout.log",
        "bytes": 4,
        "is_cut": True,
        "text": "end\n",
    }
    assert (
        "worker.stdout.log: the last 4 bytes\n  end\n"
        in failed.done("logs", "a", "--tail", "4").stdout
    )
    for words in (["--tail", "0"], ["--tail", "99999999999"], ["--tail", "x"]):
        assert failed.call("logs", "a", *words).status == 2


def test_a_machine_without_the_logs_says_so(failed: Person, tmp_path: Path) -> None:
    run_id = failed.ask("show", "a")["claims"][0]["run_id"]
    elsewhere = Person(failed.folder, failed.config, tmp_path / "elsewhere")
    error = elsewhere.call("logs", "a", "--json").error
    assert (error["code"], error["details"]["run_id"]) == ("logs_missing", run_id)
    assert elsewhere.ask("show", "a")["next"] == "callboard show a"
    assert not (tmp_path / "elsewhere").exists()


def test_what_has_no_run_has_no_logs(failed: Person) -> None:
    error = failed.call("logs", "b", "--json").error
    assert (error["code"], error["hint"]) == ("logs_missing", "callboard explain b")
    for text in ("123456", "../../etc", "*", "0"):
        error = failed.call("logs", "--run", text, "--json").error
        assert error["code"] == "run_unknown", text
    assert failed.call("logs", "nobody", "--json").error["code"] == "work_unknown"
    assert failed.call("logs").status == 2
    assert failed.call("logs", "a", "--run", "1").status == 2
