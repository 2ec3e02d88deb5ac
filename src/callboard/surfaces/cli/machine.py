"""What this machine adds to a board's answer: evidence beside the ledger, and always named so.

That a bound run has ended is no fact of the board before a Release says so. It is told as the stage
`terminal` with `host`, where it was learned; `board_stage` keeps what the ledger says.
"""

from __future__ import annotations

from typing import Any

from callboard.board.execution.hosts.local.witness import Witness
from callboard.board.projection.entities import DispatchState
from callboard.board.projection.state import Projection
from callboard.board.reading.advice import RECONCILE


def add_to_work(host: Witness, projection: Projection, document: dict[str, Any]) -> None:
    """Add to a listed node that its run has ended here, and whether its launch was sent here."""
    evidence = document.get("evidence", {})
    dispatch = projection.dispatches.get(evidence.get("dispatch_id", ""))
    if dispatch is None:
        return
    add_end(host, document, dispatch)
    if document["column"] == "stuck" and "sender" in evidence:
        sent = host.sent(dispatch)
        if sent is not None:
            evidence["sender"]["here"] = sent


def add_to_attempt(host: Witness, projection: Projection, claim: dict[str, Any]) -> None:
    """Add to an attempt what this machine knows: its end, folder, report, survivors."""
    if claim["state"] == "open":
        add_end(host, claim, projection.dispatches[claim["dispatch_id"]])
    if "run_id" not in claim:
        return
    folder = host.run_folder(claim["run_id"])
    if folder is not None:
        claim["run_folder"] = str(folder)
    ending = host.ending(claim["run_id"], claim["claim_id"])
    if ending is not None:
        claim["ending"] = ending
    refusals = host.refusals(claim["run_id"], claim["claim_id"])
    if refusals:
        claim["refusals"] = refusals
    timing = host.timing(claim["run_id"], claim["claim_id"])
    if timing:
        claim["timing"] = timing
    survivors = host.survivors(claim["run_id"])
    if survivors:
        claim["survivors"] = survivors


def add_to_receipt(host: Witness, projection: Projection, document: dict[str, Any]) -> None:
    """Add to a grant's receipt the runs that have ended here and are not settled yet."""
    for one in document.get("dispatches", ()):
        add_end(host, one, projection.dispatches[one["dispatch_id"]])


def add_end(host: Witness, document: dict[str, Any], dispatch: DispatchState) -> None:
    """Say of what is `bound` on the board that its run has ended here, or is watched by nobody."""
    if document["stage"] != "bound":
        return
    remark = host.remark(dispatch)
    if remark is not None:
        document["remark"] = remark
    end = host.run_end(dispatch)
    if end is None:
        return
    document["board_stage"], document["stage"] = document["stage"], "terminal"
    document["host"] = {
        "provenance": "this_machine",
        "run_id": end.run_id,
        "standing": end.standing,
        **({} if end.conclusion is None else {"conclusion": end.conclusion}),
    }
    if end.standing == "abandoned":
        document["supervisor"] = "gone"
    if not end.is_watched:
        # Nobody settles it by itself.
        document["next"] = RECONCILE
