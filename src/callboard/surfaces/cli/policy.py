"""`callboard policy show|check|diff|install`: the installed policy, and HEAD's instead of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from callboard.board.reading.view import no_history
from callboard.surfaces.cli.chosen import board_of, board_options, request_option
from callboard.surfaces.cli.render import (
    Block,
    Hint,
    Table,
    count,
    document_text,
    emit,
    faint,
    heading,
    short,
)
from callboard.surfaces.cli.words import key_text


@click.group()
def policy() -> None:
    """Show the policy, compare it with HEAD's, check that, or install it."""


@policy.command(short_help="Show the installed policy.")
@board_options
@click.pass_context
def show(context: click.Context) -> None:
    """Show the installed policy, the only one that counts."""
    board = board_of(context)
    view = board.view().with_history()
    document = {
        **view.stamp(),
        "policy_epoch": view.projection.policy_epoch,
        "policy": msgspec.to_builtins(view.projection.policy),
        "workers": board.workers(),
    }
    emit(context, document, lambda: _installed_text(document))


def _installed_text(document: dict[str, Any]) -> Iterator[Block]:
    yield from _policy_text(document["policy"], document["policy_epoch"])
    moved = [one for one in document["workers"] if one["deployed"]]
    if moved:
        yield ""
        yield heading("deployed since")
        rows = [
            (
                one["worker"],
                one["pool"],
                short(one["ref"]),
                "" if one["available"] else "withdrawn",
            )
            for one in moved
        ]
        yield Table(("worker", "pool", "at", ""), rows)


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
        looks = pool["reconciliation"]
        bound = f"at most {looks['max_attempts']} looks for missing evidence"
        yield f"{bound}, in at most {looks['deadline_ms'] // 1000} s"
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


_from_config = click.option(
    "--from-config",
    is_flag=True,
    help="HEAD's settings and recipes are meant, as they always are here.",
)


@policy.command(short_help="Check what HEAD would install.")
@_from_config
@board_options
@click.pass_context
def check(context: click.Context, from_config: bool) -> None:
    """Check HEAD's settings, recipes and verifiers, and compare what the first two propose with
    what is installed."""
    board = board_of(context)
    document = board.policy_check()
    document["verifiers"] = [
        {"name": name, **verifier.document()} for name, verifier in board.verifiers().items()
    ]
    emit(context, document, lambda: _check_text(document))


def _check_text(document: dict[str, Any]) -> Iterator[Block]:
    epoch = document["installed_epoch"]
    yield f"HEAD {short(document['revision'])}: the settings and recipes are valid"
    for one in document["verifiers"]:
        yield f"verifier {one['name']} may attest {', '.join(one['dispositions'])}"
    for one in document["without_effect"]:
        yield f"without effect: {one['setting']}: {one['why']}"
    if epoch is None:
        yield "nothing is installed yet: the first submission installs this"
        yield from _policy_text(document["proposed"], "none yet")
        return
    if not document["differences"]:
        yield "the installed policy is the same"
        yield from _withdrawn(document)
        return
    workers, others = _by_worker(document["differences"])
    if others:
        rows = [(one["pointer"], _side(one, "installed"), _side(one, "proposed")) for one in others]
        yield Table(("where", "installed", "HEAD"), rows)
    if workers:
        yield Table(("worker", "pool", "in HEAD"), workers)
    if workers or others:
        yield from _how_to_install(document)


def _withdrawn(document: dict[str, Any]) -> Iterator[Block]:
    for one in document["workers"]:
        if one["available"]:
            continue
        name = one["worker"]
        yield f"worker {name} of pool {one['pool']} is withdrawn at {short(one['ref'])}"
        yield Hint(f"callboard deploy {name} --restore --reason CODE")


def _how_to_install(document: dict[str, Any]) -> Iterator[Block]:
    waiting = [one for one in document["workers"] if one["standing"] in _MOVES]
    for one in waiting:
        held = f", and {count(one['promised'], 'open node')} would wait" if one["promised"] else ""
        yield f"worker {one['worker']} of pool {one['pool']} {_MOVES[one['standing']]}{held}"
    if any(one["standing"] in ("deployable", "contract_differs") for one in waiting):
        yield Hint("callboard deploy --reason CODE")
    if document["unsettled"]:
        yield faint("a policy is installed once everything is settled: callboard status")
    yield Hint("callboard policy install --from-config")


_MOVES = {
    "deployable": "can move to HEAD",
    "contract_differs": "has another contract in HEAD",
    "recipe_missing": "has no recipe in HEAD: commit one again, or cancel what waits for it",
    "recipe_invalid": "has a faulty recipe in HEAD: correct it, or cancel what waits for it",
}


@policy.command(short_help="Compare the installed policy with HEAD's.")
@_from_config
@board_options
@click.pass_context
def diff(context: click.Context, from_config: bool) -> None:
    """List what HEAD's settings and recipes would change of what is installed."""
    board = board_of(context)
    document = board.policy_check()
    if document["installed_epoch"] is None:
        raise no_history()
    kept = ("tip", "evaluated_at_ms", "provenance", "installed_epoch", "revision", "differences")
    answer = {name: document[name] for name in kept}
    emit(context, answer, lambda: _diff_text(answer))


def _diff_text(document: dict[str, Any]) -> Iterator[Block]:
    if not document["differences"]:
        yield "the installed policy is the same"
        return
    rows = [
        (one["pointer"], _side(one, "installed"), _side(one, "proposed"))
        for one in document["differences"]
    ]
    yield Table(("where", "installed", "HEAD"), rows)


@policy.command(short_help="Install what HEAD proposes.")
@_from_config
@request_option
@board_options
@click.pass_context
def install(context: click.Context, from_config: bool, request_id: str) -> None:
    """Begin a new epoch with HEAD's settings and recipes, on a board where all is settled.

    Shares start anew; what happened before stays as it is.
    """
    if not from_config:
        raise click.UsageError("Say where the policy comes from: --from-config.")
    board = board_of(context)
    outcome = board.install_policy(request_id=request_id)
    document = board.receipt(outcome, request_id=request_id)
    emit(context, document, lambda: _install_text(document))


def _install_text(document: dict[str, Any]) -> Iterator[Block]:
    if document["status"] == "already_installed":
        yield f"nothing new: epoch {document['policy_epoch']} has this policy"
        return
    stood = "this request stood already: " if document["replayed"] else ""
    yield f"{stood}installed, epoch {document['policy_epoch']}"
    yield f"request {document['request_id']}"
    yield f"commit  {document['commit_id']}"


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
