"""Sessions in a page: reads the ```console blocks of a Markdown file and runs them with bash.

A page is one session: its commands run in order, in one shell, in one repository. This module
knows the notation and the shell; what a page is about and where pages lie is the tests' affair.

The notation. `$ ` starts a command, `> ` right after it continues it, other lines are what it
prints; `...` in them stands for any text. No such lines: the output is not compared. A comment
right before a block applies to it:
  <!-- not-run: REASON -->   the block is shown only
  <!-- exit: N -->           its last command ends with N; all others end with 0
  <!-- file: PATH -->        the block, of any language, is the content of that file
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import secrets
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE_TIMEOUT_S = 220
SHELL_LANGUAGES = {"bash", "console", "sh", "shell", "shell-session", "zsh"}

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)")
_COMMENT = re.compile(r"<!--\s*(?P<name>not-run|exit|file)\s*:\s*(?P<value>.*?)\s*-->")


class PageError(Exception):
    """The page is written wrong; the text names file and line."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the line of its fence, its language, its lines, the comment before it."""

    line: int
    language: str
    body: tuple[str, ...]
    comment: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a session, or the writing of a file, which is a command too."""

    line: int
    command: str
    expected: str | None
    status: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step printed (stdout and stderr as a terminal mixes them) and its exit status."""

    step: Step
    output: str
    status: int | None

    def fault(self) -> str | None:
        """Why this is not what the page says, or None."""
        head = f"line {self.step.line}: $ {self.step.command}\n"
        if self.status is None:
            return f"{head}did not end; it printed:\n{self.output}"
        if self.status != self.step.status:
            return f"{head}ended with {self.status}, not {self.step.status}:\n{self.output}"
        if self.step.expected is None:
            return None
        checker, example = doctest.OutputChecker(), doctest.Example("", self.step.expected)
        if checker.check_output(example.want, self.output, doctest.ELLIPSIS):
            return None
        return head + checker.output_difference(example, self.output, doctest.ELLIPSIS)


def blocks(text: str, page: str) -> list[Block]:
    """All fenced blocks of a page; raises `PageError` for a fence that is never closed."""
    found: list[Block] = []
    comment: re.Match[str] | None = None
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        opening = _FENCE.match(line)
        if opening is None:
            if line.strip():
                comment = _COMMENT.fullmatch(line.strip())
            continue
        closing = re.compile(rf" *{re.escape(opening['fence'])}[`~]*\s*")
        body: list[str] = []
        for _, inner in lines:
            if closing.fullmatch(inner):
                break
            body.append(inner.removeprefix(opening["indent"]))
        else:
            raise PageError(f"{page}:{number}: this block is never closed")
        name, value = (comment["name"], comment["value"]) if comment else (None, "")
        found.append(Block(number, opening["language"], tuple(body), name, value))
        comment = None
    return found


def steps(text: str, page: str) -> list[Step]:
    """The commands of a page in order; raises `PageError` for what cannot be run as written."""
    found: list[Step] = []
    for block in blocks(text, page):
        where = f"{page}:{block.line}"
        if block.comment is not None and not block.value:
            raise PageError(f"{where}: the comment {block.comment!r} needs its value")
        if block.comment == "not-run":
            continue
        if block.comment == "file":
            found.append(_written_file(block, where))
        elif block.language in SHELL_LANGUAGES:
            found += _session(block, where)
        elif block.comment is not None:
            raise PageError(f"{where}: {block.comment!r} stands before a block without commands")
    return found


def _written_file(block: Block, where: str) -> Step:
    path = block.value
    if not re.fullmatch(r"[\w.-]+(?:/[\w.-]+)*", path) or ".." in path.split("/"):
        raise PageError(f"{where}: {path!r} is not a plain path inside the repository")
    delimiter = "END_OF_FILE_BLOCK"
    command = "\n".join(
        [f'mkdir -p "$(dirname {path})" && cat > {path} <<"{delimiter}"', *block.body, delimiter]
    )
    return Step(block.line, command, None, 0)


def _session(block: Block, where: str) -> list[Step]:
    if block.language != "console":
        raise PageError(
            f"{where}: a {block.language!r} block is not run; make it `console` with `$ ` prompts, "
            "or say why in a comment: <!-- not-run: reason -->"
        )
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.body, start=block.line + 1):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif not found:
            raise PageError(f"{page_line(where, number)}: expected `$ ` and a command")
        elif line.startswith("> ") and not found[-1][2]:
            found[-1][1].append(line[2:])
        else:
            found[-1][2].append(line)
    if not found:
        raise PageError(f"{where}: this console block has no command")
    if block.comment == "exit" and not block.value.isdecimal():
        raise PageError(f"{where}: the exit status {block.value!r} is not a number")
    last = int(block.value) if block.comment == "exit" else 0
    return [
        Step(
            number,
            "\n".join(command),
            _normal("\n".join(output)) if any(map(str.strip, output)) else None,
            last if position == len(found) else 0,
        )
        for position, (number, command, output) in enumerate(found, start=1)
    ]


def page_line(where: str, number: int) -> str:
    """`page:line` with another line number."""
    return f"{where.rpartition(':')[0]}:{number}"


def run(session: list[Step], folder: Path, env: dict[str, str]) -> list[Outcome]:
    """Run the steps in one shell in `folder`; stops after the first that ends unlike its status.

    The last outcome's status is None when the page takes longer than `PAGE_TIMEOUT_S`.
    """
    mark = secrets.token_hex(8)
    script = "".join(
        f"{step.command}\n__status=$?; printf '\\n{mark} %d\\n' \"$__status\"\n"
        f'[ "$__status" = {step.status} ] || exit\n'
        for step in session
    )
    # A file, not a pipe: a process that a page leaves behind must not hold up its end.
    printed = folder.parent / f"{folder.name}.out"
    with printed.open("wb") as sink:
        shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", script],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait(PAGE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # told by the step that has no outcome
        finally:
            # Ends a hanging shell, and what a page left in the background.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    pieces = re.split(rf"\n{mark} (\d+)\n", printed.read_text(errors="replace"))
    outcomes = [
        Outcome(step, _normal(output), int(status))
        for step, output, status in zip(session, pieces[0::2], pieces[1::2], strict=False)
    ]
    ended_early = len(outcomes) < len(session) and not any(o.fault() for o in outcomes)
    if ended_early:
        outcomes.append(Outcome(session[len(outcomes)], _normal(pieces[-1]), None))
    return outcomes


def reader_environment(home: Path) -> dict[str, str]:
    """The environment of a reader who has Git set up and `callboard` on the path.

    All folders follow from HOME, as for most readers: a page that needs an `XDG_*` variable fails.
    """
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
        "[advice]\n\tdetachedHead = false\n"
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    outer = {
        name: value
        for name, value in os.environ.items()
        if name != "GIT_CONFIG_GLOBAL" and not name.startswith("XDG_")
    }
    return outer | {"COLUMNS": "100", "HOME": str(home), "PATH": path}


def _normal(text: str) -> str:
    """Without white space at line ends and blank lines around, and with one final newline."""
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"
