"""A project in a folder, and the ways in which people and agents reach it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from callboard.project.operation import Operation
from callboard.surfaces.cli.main import root
from tests.ambient import ROOT
from tests.surfaces.cli.conftest import PROGRAM, Answer

WORK = """\
work_items:
  - id: A
    title: Do A
    acceptance: [it runs, it is told of]
  - id: B
    title: Do B
  - id: C
    title: Do C
    depends_on: [A]
"""


class Shared:
    """The folder, and the command line on it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def begin(self, work: str = WORK) -> Shared:
        """With a project."""
        (self.folder / "work.yaml").write_text(work)
        assert self.call("init", "--accept", "--key", "demo").status == 0
        return self

    def call(self, *words: str, stdin: str = "", **environment: str) -> Answer:
        """Run `callboard project` with these words, in this process."""
        done = CliRunner().invoke(
            root,
            ["project", *words],
            input=stdin,
            env={"CALLBOARD_REPO": str(self.folder), **environment},
        )
        return Answer(done.exit_code, done.stdout, done.stderr)

    def ask(self, *words: str, **more: Any) -> Any:
        """The document of a call that is done."""
        answer = self.call(*words, "--json", **more)
        assert answer.status == 0, answer
        assert answer.stderr == ""
        return answer.json

    def refused(self, *words: str, **more: Any) -> str:
        """The code of a call that is refused."""
        return str(self.call(*words, "--json", **more).error["code"])

    def start(
        self, *words: str, environment: Mapping[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        """The same as a process of its own, in the folder."""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            [*PROGRAM, "project", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **(environment or {})},
            text=True,
            **{**streams, "cwd": self.folder, **more},
        )

    def session(self, work: str, agent: str = "codex", ttl_ms: int | None = None) -> str:
        """A new session that holds the work."""
        end = [] if ttl_ms is None else ["--ttl-ms", str(ttl_ms)]
        words = ["session", "start", "--work", work, "--agent", agent, "--claim", *end]
        return str(self.ask(*words)["session"]["id"])

    def events(self, *words: str) -> list[dict[str, Any]]:
        """The history, a page of 500 at most."""
        found = self.ask("event", "list", "--limit", "500", *words)["events"]
        assert isinstance(found, list)
        return found


def words_of(operation: Operation, arguments: Mapping[str, Any]) -> tuple[list[str], str]:
    """What a person types for an operation, and what they pipe in."""
    words, stdin = list(operation.words), ""
    for one in operation.parameters:
        value = arguments.get(one.name)
        if value is None:
            continue
        if one.is_argument:
            words += ["--", value] if value.startswith("-") else [value]
        elif one.kind in ("flag", "off"):
            words += [one.option] if value == (one.kind == "flag") else []
        elif one.kind == "changes":
            words += [one.option, "-"]
            stdin = json.dumps(value)
        elif one.kind == "artifacts":
            for artifact in value:
                words += [one.option, artifact["ref"], artifact["sha256"]]
        elif one.kind == "texts":
            for text in value:
                words += [one.option, text]
        else:
            words += [one.option, json.dumps(value) if one.kind == "object" else str(value)]
    return words, stdin


_ID = re.compile(r"\b[a-z]_[0-9a-f]{32}\b")
_TIME = re.compile(r"\b1[0-9]{12}\b")
_UTC = re.compile(r"\b20[0-9-]{8} [0-9:]{8} UTC\b")


class Plain:
    """Makes documents of two projects comparable: ids by their order, times all alike."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids: dict[str, str] = {}

    def of(self, document: Any) -> Any:
        """The document without what two projects cannot have in common."""
        text = json.dumps(document, sort_keys=True).replace(str(self._folder), "FOLDER")
        text = _ID.sub(lambda found: self._ids.setdefault(found[0], self._named()), text)
        text = _UTC.sub("then", text)
        found = _in_order(json.loads(_TIME.sub("0", text)))
        if found.get("next"):
            found["next"] = "a cursor"
        return found

    def _named(self) -> str:
        return f"id-{len(self._ids)}"


def _in_order(value: Any) -> Any:
    """Lists of nothing but ids come in the order of their random digits."""
    if isinstance(value, dict):
        return {name: _in_order(one) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    found = [_in_order(one) for one in value]
    return sorted(found) if all(re.fullmatch(r"id-\d+", str(one)) for one in found) else found
