"""Plain words for the codes of the read models; the codes themselves stand in `--json`.

Pure wording: an unknown code is shown as it is, and nothing is decided here.
"""

from __future__ import annotations

import signal
from typing import Any

from callboard.board.ledger.finish import ATTEMPTS_EXHAUSTED
from callboard.surfaces.cli.render import clock, count, duration

_REASONS = {
    "ready": "nothing in its way",
    "grants_paused": "grants are paused",
    "external_unavailable": "what it waits for elsewhere cannot be read",
    "worker_unavailable": "its worker cannot be had",
    "worker_unavailable_here": "its worker's commit is neither here nor on the remote",
    "host_unsupported": "it runs on a host that cannot be asked from here",
    "worker_incompatible": "its worker has another contract now",
    "retry_delayed": "is tried again later",
    "external_wait": "waits for an issue or pull request",
    "observation_stale": "waits for a fresh look at an issue or pull request",
    "granted": "granted, about to start",
    "launching": "its run is starting",
    "running": "under way",
    "verifying": "being verified",
    "launch_overdue": "granted, and not started for too long",
    "launch_rejected": "its launch was refused",
    "launch_uncertain": "it is not known whether its run started",
    "launch_unresolved": "it could not be found out whether its run started",
    "run_binding_conflict": "another run than the one ordered, or several, claim its launch",
    "rerun_without_authority": "its run was started over, which gives no right to go on",
    "delivery_pending": "completed, and not verified for too long",
    "waiting_for_slot": "granted, and this process has no free place for its run",
    "run_unknown_here": "no record of its run is here",
    "sender_unknown_here": "no record of its launch is here",
    "supervisor_unknown_here": "nothing is known here about its supervisor",
    "lifecycle_limit": "too many launch records",
    "process_unknown": "its process cannot be told apart",
    "registry_busy": "the record of runs is in use",
    "registry_invalid": "the record of runs is damaged",
    "registry_newer": "the record of runs is from a newer version",
    "registry_unusable": "the record of runs cannot be opened",
}  # fmt: skip
_STOPS = {
    "no_work": "no node waits for a grant",
    "no_eligible_work": "no node is ready",
    "grants_paused": "grants are paused",
    "claim_budget_reached": "as many as were asked for",
    "dispatch_budget_blocked": "as many runs as were asked for",
    "operation_budget_reached": "a commit takes no more",
    "assignment_size_blocked": "an assignment takes no more",
    "history_unavailable": "why is in the history before the checkpoint, which is not here",
}
_FULL = {
    "logical": "every place for Claims is taken",
    "native": "every place for runs is taken",
    "account": "its key has all the Claims it may have",
}
_BASIS = {
    ("fifo_default",): "the oldest",
    ("weighted_class", "weighted_key"): "next by share",
    ("priority_class", "weighted_key"): "the most urgent, by share of its key",
}
_REMARKED = "running, with a remark of its supervisor: callboard explain tells it"
_UNWATCHED = "its supervisor is gone; the next reconciliation ends it"
_ENDED = "its run has ended on this machine, and its place is not free yet"
_OVERDUE = {
    "reserved": "granted, and for too long nobody has begun its launch",
    "started": "its launch has begun, and for too long no run has shown itself",
}


def stop_text(reason: str, limit: str | None = None) -> str:
    """Why there is no grant, or no further one."""
    if reason == "capacity_blocked":
        return _FULL.get(str(limit), "every place is taken")
    return _STOPS.get(reason, reason)


def key_text(key: str) -> str:
    """A fairness key; nodes that name none have the empty one."""
    return key or "(none)"


SHARE_HEADERS = ("key", "weight", "due", "got")


def share_row(one: dict[str, Any]) -> tuple[str, ...]:
    """A key's turns, for a table under `SHARE_HEADERS`."""
    return key_text(one["key"]), str(one["weight"]), one["due_turns"], str(one["got_turns"])


def kept_back_text(one: dict[str, Any]) -> str:
    """A worker that did not follow HEAD, and what a person may do about it."""
    if one["standing"] == "needs_policy":
        changes = ", ".join(one["changes"])
        return f"worker {one['worker']} stays as it is: HEAD's {changes} needs a new policy"
    if one["standing"] == "unpushed":
        return f"worker {one['worker']} stays as it is until HEAD is pushed: git push"
    held = count(one["promised"], "open node")
    return (
        f"worker {one['worker']} stays as it is: HEAD has another contract, and {held} would wait; "
        "callboard deploy moves it"
    )


def basis_text(basis: list[str]) -> str:
    """By which comparison a node is next."""
    return _BASIS.get(tuple(basis), ", ".join(basis))


def reason_text(one: dict[str, Any], now_ms: int) -> str:
    """Why a node stands where it does, with what is behind it."""
    evidence = one.get("evidence", {})
    reason = str(one["reason"])
    if one.get("stage") == "terminal":
        return _UNWATCHED if one.get("supervisor") == "gone" else _ENDED
    if reason == "running" and "remark" in one:
        return _REMARKED
    if reason == "launch_overdue":
        return _OVERDUE.get(str(evidence.get("launch")), _REASONS[reason])
    if reason == "grants_paused" and "pause" in evidence:
        return f"granted, and grants are paused: {evidence['pause'].get('reason', 'unknown')}"
    if reason == ATTEMPTS_EXHAUSTED:
        attempts = evidence.get("attempts", one.get("attempts"))
        tried = "" if attempts is None else f" after {count(int(attempts), 'attempt')}"
        return f"gave up{tried}{_last_run(evidence)}"
    if reason == "delivery_failed":
        why = "before the checkpoint" if evidence.get("before_checkpoint") else "unknown"
        return f"its delivery failed: {evidence.get('failure', why)}"
    if reason == "replaced":
        return f"replaced by {evidence.get('replaced_by', 'another node')}"
    return obstacle_text({**evidence, "reason": reason}, now_ms)


MAX_BLOCKED = 10


def replaces_text(one: dict[str, Any]) -> str:
    """What a node stands in for, and by what proof."""
    why = f"{one['failure']}, " if "failure" in one else ""
    return (
        f"{one['name']}, whose delivery failed ({why}effects {one.get('effects', 'unknown')}): "
        f"{one['disposition']}, {proof_text(one.get('receipt'))}"
    )


def proof_text(receipt: Any) -> str:
    """The proof that a replacement rests on, shortened; `--json` has the whole."""
    kind, _mark, rest = str(receipt).partition(":")
    if kind == "verifier":
        name, _at, proof = rest.partition("@")
        return f"by verifier {name} at {proof[:12]}"
    if kind == "failure":
        return "as its effects never began"
    return "unproven" if receipt is None else f"by {receipt}"


def blocked_text(document: dict[str, Any]) -> str:
    """The nodes that wait in vain, at most `MAX_BLOCKED` by name."""
    names = [str(one["name"]) for one in document["blocked"][:MAX_BLOCKED]]
    more = document["blocked_count"] - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def obstacle_text(one: dict[str, Any], now_ms: int) -> str:
    """One thing in the way: `reason` with `path`, `until_ms`, `limit` or `found`."""
    reason = str(one["reason"])
    path = " <- ".join(one.get("path", ["", "another node"])[1:])
    if reason == "dependency_wait":
        return f"waits for {path}"
    if reason == "dependency_result_unavailable":
        return f"waits for {path} to be verified"
    if reason == "dependency_failed":
        return f"waits for {path}, which {_cause(one.get('cause_reason'))}"
    if reason == "dependency_delivery_failed":
        instead = one.get("cause_replaced_by")
        said = "" if instead is None else f"; {instead} replaces it, and this edge stays"
        return f"waits for {path}, whose delivery failed{said}"
    if reason == "retry_delayed" and "until_ms" in one:
        left = duration(one["until_ms"] - now_ms + 999)
        return f"is tried again at {clock(one['until_ms'], now_ms)}, in {left}"
    if reason == "capacity_blocked":
        return stop_text(reason, one.get("limit"))
    said = _REASONS.get(reason, reason)
    return f"{said}: {one['found']}" if "found" in one else said


def _cause(reason: Any) -> str:
    if reason == ATTEMPTS_EXHAUSTED:
        return "gave up"
    return f"was cancelled: {reason}" if reason else "was cancelled"


def _last_run(evidence: dict[str, Any]) -> str:
    conclusion = evidence.get("conclusion")
    if conclusion in (None, "success"):
        return ""
    return f", the last run: {conclusion_text(str(conclusion))}"


_CONCLUSIONS = {
    "success": "success",
    "failure": "failed",
    "timed_out": "stopped at its time limit",
    "start_failed": "its program could not be started",
    "signalled": "ended by a signal",
    "stopped": "stopped",
    "not_bound": "never began",
    "nothing_open": "found its work ended, and executed nothing",
    "not_launched": "never began",
    "supervisor_lost": "its supervisor was lost",
    "run_ended": "ended without a finish",
    "worker_unavailable": "its recipe could not be read",
}


def conclusion_text(conclusion: str) -> str:
    """How a run ended."""
    step, _set_up, rest = conclusion.partition("setup_")
    if not step and rest:
        return f"setup: {_CONCLUSIONS.get(rest, rest)}"
    return _CONCLUSIONS.get(conclusion, conclusion)


_LAUNCHES = {"reserved": "granted", "started": "launching", "bound": "running"}


# --- attempts ------------------------------------------------------------------------------------


def attempt_text(claim: dict[str, Any]) -> str:
    """How one attempt ended, or how it stands: from the run's report, else from the board."""
    if claim["state"] == "open":
        if claim.get("stage") == "terminal":
            return _UNWATCHED if claim.get("supervisor") == "gone" else _ENDED
        launch = str(claim["launch"])
        return _REASONS.get(_LAUNCHES.get(launch, launch), launch)
    if claim["state"] == "completed":
        return "completed"
    reason = str(claim.get("cancellation_reason", "unknown"))
    if reason not in _FAILURES:
        return f"cancelled: {reason}"
    return f"failed: {failure_text(claim)}"


_FAILURES = {
    # The record has this one word for whatever was not as it should be; the report says what.
    "worker_cancelled": "not completed, and no report of its run is here that says why",
    "run_ended": "the run ended before it was finished",
    "not_launched": "the run never began",
    "supervisor_lost": "the run's supervisor was lost",
}


def failure_text(claim: dict[str, Any]) -> str:
    """Why an attempt failed: the worker's side in words, then how its command ended."""
    reason = str(claim.get("cancellation_reason", "unknown"))
    ending: dict[str, Any] = claim.get("ending") or {}
    command = _command_text(ending)
    said: list[str] = []
    if "trouble" in ending:
        said.append(ending["trouble"])
    judged = ending.get("reason") if ending.get("outcome") == "cancelled" else None
    if judged in ("worker_cancelled", "no_finish"):
        # The command's own end says more, unless there was nothing wrong with it.
        by_itself = ending.get("ended") == "exited" and ending.get("command") == "worker"
        if by_itself and ending.get("exit_code") == 0:
            said.append(str(ending.get("detail") or judged))
        elif by_itself and judged == "no_finish":
            said.append("no finish was staged")
    elif judged is not None:
        said.append(", ".join(str(one) for one in (judged, ending.get("detail")) if one))
    elif reason != "worker_cancelled" or not (command or said):
        said.append(_FAILURES.get(reason, reason))
    if command:
        said.append(command)
    return "; ".join(said)


def short_failure(claim: dict[str, Any]) -> str:
    """The same in a few words, for one line of a log."""
    ending: dict[str, Any] = claim.get("ending") or {}
    ended, judged = ending.get("ended"), ending.get("reason")
    if judged not in (None, "worker_cancelled", "no_finish", "finished"):
        return str(ending.get("detail") or judged)
    if "trouble" in ending:
        return str(ending["trouble"])
    if ended == "exited" and ending.get("exit_code") != 0:
        return _of_setup(ending, f"exit {ending.get('exit_code')}")
    if ended == "exited" and judged == "no_finish":
        return "no finish, exit 0"
    if ended is not None and ended != "exited":
        return _command_text(ending).removeprefix("the command was ")
    reason = str(claim.get("cancellation_reason", "unknown"))
    return _FAILURES.get(reason, reason)


def _of_setup(ending: dict[str, Any], text: str) -> str:
    return f"setup: {text}" if ending.get("command") == "setup" else text


def _command_text(ending: dict[str, Any]) -> str:
    who = "setup" if ending.get("command") == "setup" else "the command"
    ended = ending.get("ended")
    if ended == "exited":
        return f"{who} exited with {ending.get('exit_code')}"
    if ended == "signalled":
        return f"{who} was ended by {_signal_name(ending.get('signal'))}"
    if ended == "timed_out":
        return f"{who} was stopped at its time limit, after {duration(_ms(ending))}"
    if ended == "stopped":
        return f"{who} was stopped, after {duration(_ms(ending))}"
    if ended == "start_failed":
        program, why = ending.get("program", "?"), ending.get("start_error", "unknown")
        if why == "ENOENT":
            return _of_setup(ending, f"there is no program {program!r}")
        return _of_setup(ending, f"{program!r} could not be started: {why}")
    return "" if ended is None else f"{who}: {ended}"


def _ms(ending: dict[str, Any]) -> int:
    found = ending.get("duration_ms")
    return found if isinstance(found, int) else 0


def _signal_name(number: Any) -> str:
    try:
        return signal.Signals(number).name
    except (ValueError, TypeError):
        return f"signal {number}"


# --- findings of a look at what is open ----------------------------------------------------------

_FOUND = {
    "released": "settled, and its place is free",
    "launched": "started now",
    "launch_pending": "its launch is under way",
    "not_sender": "somebody else starts it",
    "not_reserved": "somebody else started it",
    "nothing_open": "nothing of it is open any more",
    "run_exists": "a run for it is there already",
    "verified": "its outputs are verified",
    "failed": "its delivery is given up",
    "decided": "somebody else decided it",
    "pending": "its outputs are not all there yet; looked for again later",
    "run_abandoned": "nobody watches over its run, and it could not be ended",
    "run_binding_conflict": "more than one run appeared for it, or another one than was ordered",
    "rerun_without_authority": "somebody runs it again, which may act for nobody",
    "not_ruled_out": "its host cannot prove that no run will begin",
    "refused": "its host refused to begin a run, and its place is free",
    "evidence_unavailable": "its host gives no evidence",
}


def finding_text(word: str) -> str:
    """What a look came to."""
    return _FOUND.get(word) or _REASONS.get(word, word)


def found_text(one: dict[str, Any]) -> str:
    """What a look found, and the last evidence on the record where that is another word."""
    word = str(one["found"])
    said = finding_text(word)
    reason = one.get("reason")
    if one["state"] not in ("uncertain", "unresolved") or reason in (None, word):
        return said
    return f"{said} ({_REASONS.get(str(reason), reason)})"
