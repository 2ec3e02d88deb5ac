"""Which repository a command of the layers is about, and the options that several of them take.

It opens the façade and decides nothing. Folders of other users are never taken for the repository
by searching upward: whoever owns one could put commands of theirs into its workflow sets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import Chosen

if TYPE_CHECKING:
    from callboard.layers.layers import Layers

C = TypeVar("C", bound=Callable[..., Any])
MAX_TEXT_BYTES = 256 * 1024


def opened(context: click.Context, assignment: str | None = None) -> Layers:
    """The layers of the chosen repository, or of the one that an assignment names."""
    from callboard.layers.layers import Layers as Opened

    chosen = context.ensure_object(Chosen)
    for name in ("branch", "remote", "offline"):
        if getattr(chosen, name):
            raise click.UsageError(
                f"--{name} before the verb chooses a board, and layers need none.", context
            )
    if assignment is not None:
        from callboard.layers import assigned

        return Opened.open(assigned.repository_of(Path(assignment)), dict(os.environ))
    return Opened.open(_repository(chosen.folder), dict(os.environ))


def _repository(folder: str) -> Path:
    """The nearest folder from here upward that is a repository or has layers."""
    try:
        here = Path(folder).resolve(strict=True)
        if not here.is_dir():
            raise _missing(folder, "it is not a folder")
        for place in (here, *here.parents):
            if place != here and place.stat().st_uid != os.geteuid():
                break
            if (place / ".git").exists() or (place / ".callboard" / "layers").is_dir():
                return place
    except OSError as error:
        raise _missing(folder, error.strerror or str(error)) from error
    except (ValueError, RuntimeError) as error:
        raise _missing(folder, "it holds a NUL, or its links go in a circle") from error
    raise _missing(str(here), "neither it nor a folder of yours above it is one")


def _missing(folder: str, found: str) -> CallboardError:
    return CallboardError(
        "repository_missing",
        f"there is no repository at {folder!r}: {found}",
        "run `git init`, or name the repository's folder with --repo",
        {"path": folder},
    )


_ROOT = "The root layer (default: the only one, or the only one that is not over)."


def session_option(text: str = _ROOT) -> Callable[[C], C]:
    """`--session ID`."""
    return click.option("--session", metavar="ID", callback=_named, help=text)


def _named(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value == "":
        # A script's empty variable must not quietly mean another layer.
        raise click.BadParameter(
            "'' is empty; leave the option out for the default", context, parameter
        )
    return value


def assignment_option(*, required: bool) -> Callable[[C], C]:
    """`--assignment FILE`: what an agent says of its attempt goes by that alone."""
    return click.option(
        "--assignment",
        metavar="FILE",
        required=required,
        help="The absolute path of the assignment, as the prompt names it.",
    )
