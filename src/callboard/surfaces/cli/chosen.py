"""What the person chose for this call: repository, branch, folders, and the form of the answer.

The only module of the program that reads the environment for settings. It opens the board when a
command first needs it and closes it at the end.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from callboard.surfaces.cli.verbs import VERBS

if TYPE_CHECKING:
    from callboard.board.board import Board, Folders

APPLICATION = "callboard"

BOARD_VERBS = tuple(verb for verb in VERBS if verb not in ("worker", "outputs"))
"""The verbs that act on the chosen board."""

Command = TypeVar("Command", bound=Callable[..., Any])
_COMMAND = re.compile(rf"(?<![\w./-])callboard (?=(?:{'|'.join(BOARD_VERBS)})\b)")
_GIT = re.compile(r"\bgit (?=(?:add|commit)\b)")


@dataclass(slots=True)
class Chosen:
    """The options that every command takes, before the verb or after it."""

    repo: str | None = None
    branch: str | None = None
    remote: str | None = None
    offline: bool = False
    json: bool = False
    answered: bool = False
    """Whether the one document of `--json` is on its way out."""

    @property
    def folder(self) -> str:
        """A folder in the repository: what was typed, else the environment's, else here."""
        return self.repo or os.environ.get("CALLBOARD_REPO") or "."

    def pasteable(self, hint: str) -> str:
        """A hint whose commands act on the board of this call: with the options typed for it."""
        typed = {"--repo": self.repo, "--branch": self.branch, "--remote": self.remote}
        words = [f"{name} {shlex.quote(value)} " for name, value in typed.items() if value]
        if self.repo:
            place = f"git -C {shlex.quote(self.repo)} "
            hint = _GIT.sub(lambda _found: place, hint)
        return _COMMAND.sub(lambda _found: "callboard " + "".join(words), hint)

    def open_board(self) -> Board:
        """The board of the chosen repository; the caller closes it."""
        from callboard.board.board import Board

        branch = self.branch or os.environ.get("CALLBOARD_BRANCH") or None
        remote = self.remote or os.environ.get("CALLBOARD_REMOTE") or None
        return Board.open(
            self.folder,
            folders(),
            branch=branch,
            remote=remote,
            environment=dict(os.environ),
            offline=self.offline,
        )


def folders() -> Folders:
    """The user's folders, by the environment or the platform's custom."""
    from callboard.board.board import Folders

    config = os.environ.get("CALLBOARD_CONFIG_DIR")
    state = os.environ.get("CALLBOARD_STATE_DIR")
    if not (config and state):
        import platformdirs

        config = config or platformdirs.user_config_dir(APPLICATION)
        state = state or platformdirs.user_state_dir(APPLICATION)
    return Folders(Path(config).absolute(), Path(state).absolute())


def _choose(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    chosen = context.ensure_object(Chosen)
    if value == "":
        # A script's empty variable must not quietly mean another board.
        raise click.BadParameter(
            "'' is empty; leave the option out for the default", context, parameter
        )
    if value not in (None, False):
        setattr(chosen, str(parameter.name), value)


def _option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, callback=_choose, **settings)


def board_options(command: Command) -> Command:
    """`--json`, `--repo`, `--branch`, `--remote`, `--offline`."""
    return _with_options(command, hidden=False)


def boardless_options(command: Command) -> Command:
    """`--json`; those that choose a board are taken too, change nothing, and are not shown."""
    return _with_options(command, hidden=True)


def _with_options(command: Command, *, hidden: bool) -> Command:
    offline = "Show what was last fetched of a board on a remote; write nothing."
    command = _option("--offline", is_flag=True, hidden=hidden, help=offline)(command)
    remote = "The remote that the board lives on, by its name."
    command = _option("--remote", metavar="NAME", hidden=hidden, help=remote)(command)
    branch = "The board's branch."
    command = _option("--branch", metavar="NAME", hidden=hidden, help=branch)(command)
    repository = "The repository (default: here)."
    command = _option("--repo", metavar="PATH", hidden=hidden, help=repository)(command)
    return _option("--json", is_flag=True, help="Answer with one JSON document.")(command)


def project_options(command: Command) -> Command:
    """`--json` and `--repo`: a project needs no board, and has branches of its own."""
    folder = "The project's folder (default: here, or the next one above that has a project)."
    command = _option("--repo", metavar="PATH", help=folder)(command)
    return _option("--json", is_flag=True, help="Answer with one JSON document.")(command)


def layers_options(command: Command) -> Command:
    """`--json` and `--repo`: layers belong to a repository and need no board."""
    folder = "The repository (default: the one that holds this folder)."
    command = _option("--repo", metavar="PATH", help=folder)(command)
    return _option("--json", is_flag=True, help="Answer with one JSON document.")(command)


def _fresh_request_id() -> str:
    from callboard.board.board import new_request_id

    return new_request_id()


_requests = partial(
    click.option,
    "--request-id",
    metavar="ID",
    type=str,
    help="Name the request: said again, it changes nothing and gives the same answer.",
)
request_option = _requests(default=_fresh_request_id)
requests_option = _requests()
"""For a command that makes many requests; None where they are not named."""


def reason_option(example: str) -> Callable[[Command], Command]:
    """`--reason`, with an example for its help."""
    return click.option(
        "--reason", metavar="CODE", required=True, help=f"Why, as a short code such as {example}."
    )


def board_of(context: click.Context) -> Board:
    """The chosen board, open until the command ends."""
    return context.with_resource(context.ensure_object(Chosen).open_board())
