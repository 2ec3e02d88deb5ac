"""`callboard policy show|check`: the installed policy, and what HEAD would install instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from callboard.surfaces.cli.chosen import board_of, board_options
from callboard.surfaces.cli.render import (
    Block,
    Table,
    document_text,
    emit,
    faint,
    heading,
    short,
)
from callboard.surfaces.cli.words import key_text


@click.group()
def policy() -> None:
    """Show the policy, or check what HEAD would install."""


@policy.command(short_help="Show the installed policy.")
@board_options
@click.pass_context
def show(context: click.Context) -> None:
    """Show the installed policy, the only one that counts."""
    view = board_of(context).view()
    document = {
        **view.stamp(),
        "policy_epoch": view.projection.policy_epoch,
        "policy": msgspec.to_builtins(view.projection.policy),
    }
    emit(context, document, lambda: _policy_text(document["policy"], document["policy_epoch"]))


def _policy_text(found: dict[str, Any], epoch: Any) -> Iterator[Block]:
    yield heading(f"{found['mode']}, epoch {epoch}")
    yield "class weights, most urgent first: " + " ".join(str(n) for n in found["class_weights"])
    weights = found["accounting_weights"]
    yield Table(("key", "weight"), [(key_text(key), str(weights[key])) for key in sorted(weights)])
    for name, pool in sorted(found["pools"].items()):
        yield ""
        yield heading(f"pool {name}")
        account = pool.get("per_account_limit")
        limit = "" if account is None else f", {account} a key"
        yield f"open Claims at most {pool['logical_limit']}, runs {pool['native_limit']}{limit}"
        retry = pool["retry"]
        yield f"{retry['max_attempts']} attempts, {retry['backoff_ms'] // 1000} s apart"
        yield Table(
            ("worker", "recipe", "at", "tasks a run"),
            [
                (
                    profile_name,
                    profile["workflow"],
                    short(profile["ref"]),
                    str(profile["max_claims"]),
                )
                for profile_name, profile in sorted(pool["profiles"].items())
            ],
        )


@policy.command(short_help="Check what HEAD would install.")
@board_options
@click.pass_context
def check(context: click.Context) -> None:
    """Check HEAD's settings and recipes, and compare what they propose with what is installed."""
    document = board_of(context).policy_check()
    emit(context, document, lambda: _check_text(document))


def _check_text(document: dict[str, Any]) -> Iterator[Block]:
    epoch = document["installed_epoch"]
    yield f"HEAD {short(document['revision'])}: the settings and recipes are valid"
    for one in document["without_effect"]:
        yield f"without effect: {one['setting']}: {one['why']}"
    if epoch is None:
        yield "nothing is installed yet: the first submission installs this"
        yield from _policy_text(document["proposed"], "none yet")
        return
    if not document["differences"]:
        yield "the installed policy is the same"
        return
    workers, others = _by_worker(document["differences"])
    if others:
        rows = [(one["pointer"], _side(one, "installed"), _side(one, "proposed")) for one in others]
        yield Table(("where", "installed", "HEAD"), rows)
    if workers:
        yield Table(("worker", "pool", "in HEAD"), workers)
    yield faint("what is installed counts for this board; a new branch is a new board")


def _by_worker(
    differences: list[dict[str, Any]],
) -> tuple[list[tuple[str, str, str]], list[dict[str, Any]]]:
    """A row for each worker that differs, and the differences that are of no worker."""
    found: dict[tuple[str, str], list[str]] = {}
    others: list[dict[str, Any]] = []
    for one in differences:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in one["pointer"].split("/")]
        if len(steps) < 5 or steps[1] != "pools" or steps[3] != "profiles":
            others.append(one)
            continue
        said = found.setdefault((steps[4], steps[2]), [])
        if len(steps) == 5:
            said.append("new" if "installed" not in one else "gone")
        elif steps[5] == "ref":
            said.insert(0, "another commit")
        elif steps[5] not in said:
            said.append(steps[5])
    rows = [(worker, pool, ", ".join(said)) for (worker, pool), said in sorted(found.items())]
    return rows, others


def _side(one: dict[str, Any], name: str) -> str:
    return document_text(one[name]) if name in one else "-"
