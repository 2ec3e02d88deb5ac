"""The reference board: reads commits one by one, naively, and says what the board then is.

Where the written rules leave a choice open, this model reads them as follows.

Ledger and envelope
- `apply` takes commits in chain order. An exact repetition of a commit already read changes
  nothing; a known commit or request id with another body is refused.
- A float is never accepted, not even an integral one: the model sees what the wire carries.
- Every actor's repository must be the one of the genesis actor.
- A genesis submit comes from a producer or a dispatcher; a Policy-only genesis from an
  administrator. On a later `policy` request the commit's epoch is the new one.
- A `policy` request holds one operation; the other `{operations}` requests hold one or more of
  their kind. `cancel_claim` is Claim cancellations, then Work cancellations; `release` ends with
  exactly one Release, and what it cancels belongs to the released group.
- `limits.operations` bounds every commit.
- A worker may submit or ask for grants only for a member it completed whose delivery is pending;
  it names that member. To observe it needs its bound run; to bind, its own run.

Policy and Work
- `allowed_repositories` binds gates. A fairness key must be among the weights.
- Without `aw`, whoever submits needs a producer entry, whatever the role.
- `batch_trust_domain` equals the profile's. A pin names a revision registered under this Policy; a
  contract equals that of the pinned revision, or of the current one without a pin.
- What a worker submits has its member's pool and key and no better class than the admitted one.
- `effect_scope` and `credential_scope` are identities; their values are not judged.
- A submission may repeat nodes that exist, field for field; their position stays. Even one of
  only known nodes is read without complaint, also while admission is paused.
- One graph stays in one pool; its keys and priorities may differ. An edge twice is refused.
- A remedy has the pool and key of what it replaces; its evidence is of kind delivery or
  reconciliation and about the failed Work's worker.
- The one-claim assignment is measured with the longest request id, commit ids as writers make
  them, and an empty descriptor plus `result_bytes` for each unresolved predecessor.
- Graph nodes are Work plus distinct gates; `stats.nodes` adds this up over all graphs.

Planning
- A Claim's observations stand in edge order. Age is `at - observed_at` and may be negative.
- The latest Observation of a gate is the last one in the chain.
- With backlog but nobody eligible, `capacity_blocked` means that some Work lacks only a slot.
- New group: dispatch budget, native limit, size, in this order. Before each winner: claim budget,
  then operation budget, which counts the Observations of the same commit.
- Byte limits never shorten a prefix; they refuse the commit.
- `explain_work` asks, in order: ownership, failed ancestors (cancelled before delivery),
  unresolved edges in edge order, gates in edge order, retry delay, worker (unavailable before
  incompatible), capacity. A gate never seen or
  seen as unknown is `external_unavailable`, one waiting or failed `external_wait`; a ready one
  of old age or of an old credential generation is `observation_stale`.

Workers, priorities, mirrors
- A Deployment is judged in this order: pool, name, expectations, boundary, a known revision with
  another profile, an unknown one that shall not become current. One that changes nothing is read.
- Whoever has the role may deploy, for any pool. A caller's `worker_profiles` are asked for first.
- A priority set again to what it is changes nothing and is read. It outlives the Work's Claims and
  stays on record when the Work ends.
- An empty list of projectors is none. "The same again" means the same record, field for field;
  by whom and in which commit does not count, the first one stays on record.
- A link to another resource than the Work's `backing_issue`, which counts whole, is a link
  conflict. Claims may have ended; comments are judged by the repository of the Work's link.

Lifecycle
- Steps of a group: reserved, started, then bound, uncertain, unresolved or rejected;
  uncertain, then bound, unresolved or rejected; unresolved, then bound or rejected. Repeating
  uncertain, unresolved or the same binding is a write like any other; a Release is none.
- Release proof: prelaunch while reserved, terminal run once bound, nonlaunch otherwise. Rejection
  carries nonlaunch evidence; evidence beside any other step is of kind reconciliation.
- A run serves one group only. Evidence and runs show the board's repository and the frozen
  profile. A Result rests on delivery evidence from verified receipts.
- A cancelled Claim, by either cancellation, leaves its Work without `claim_id`; ended by its
  Work's cancellation it takes that reason and has no `retry_not_before`.
- A Result said again with the same descriptor, or a DeliveryFailure with the same disposition, is
  read and changes nothing.
- Within `release`, the retry origin is the `checked_at` of the Release, otherwise the commit's at.

State document
- `result` is the descriptor; `requests[].claims` are claim ids; `stats.claims` counts all Claims;
  `last_at` is the last commit's; `reason` of a group stays until another one replaces it.
- Work is unsettled while available, claimed, or completed with delivery open; what it froze at
  admission is shown as long, each of the two fields by itself.
- Observation writes are never reset; generations start with `initial` seen.
"""

from collections.abc import Callable
from typing import Any

from .admission import admit_all
from .budget import check_bytes
from .canon import (
    MAX_LINE,
    Doc,
    Refused,
    canonical,
    commit_identity,
    digest,
    fingerprint,
)
from .lifecycle import (
    apply_claim_cancellation,
    apply_completion,
    apply_control,
    apply_delivery_failure,
    apply_dispatch,
    apply_observation,
    apply_release,
    apply_result,
    apply_work_cancellation,
    find,
)
from .mirrors import apply_issue_comment, apply_issue_link
from .planning import open_in_pool, plan_batch, why
from .policies import check_policy
from .priorities import apply_work_priority
from .records import commit as commit_shape
from .requests import check_request
from .routes import apply_deployment, routes_of
from .tables import copied, document, empty

__all__ = ["Board", "Refused"]


class Board:
    """A board as its commits make it."""

    def __init__(self) -> None:
        self._tables = empty()

    def apply(self, commit: Doc) -> None:
        """Take one commit; on `Refused` the board is what it was before."""
        line = canonical(commit)
        if len(line) > MAX_LINE:
            raise Refused("resource_limit", "the line is too long")
        commit_shape(commit, "commit")
        known = self._tables["lines"].get(commit["id"])
        if known is not None:
            if known == line:
                return
            raise Refused("commit_conflict", commit["id"])
        self._tables = after(self._tables, commit, line)

    def copy(self) -> "Board":
        """A board in the same state that goes its own way."""
        other = Board()
        other._tables = copied(self._tables)
        return other

    def state(self) -> Doc:
        """The state document."""
        return document(self._tables)

    def tables(self) -> Doc:
        """The tables themselves, to look at and never to change."""
        return self._tables

    def plan(
        self,
        pool: str,
        at: int,
        max_claims: int,
        max_dispatches: int,
        max_bytes: int,
        request_id: str,
        commit_id: str | None = None,
        *,
        worker_profiles: list[str] | None = None,
        observations: list[Doc] | None = None,
    ) -> Doc:
        """What a request would be granted now, after the given Observations of its own commit."""
        tables = copied(self._tables)
        for op in observations or []:
            apply_observation(tables, op)
        parameters: Doc = {
            "pool": pool,
            "max_claims": max_claims,
            "max_dispatches": max_dispatches,
            "max_bytes": max_bytes,
        }
        if worker_profiles is not None:
            parameters["worker_profiles"] = worker_profiles
        name = commit_id or commit_identity(tables["tip"], request_id)
        found = plan_batch(tables, parameters, at, request_id, name, len(observations or []))
        return {key: found[key] for key in ("reason", "operations", "assignments")}

    def explain_work(self, work_id: str, at: int) -> str:
        """Why a Work is not served now, or `eligible`."""
        work = find(self._tables, "works", work_id)
        return why(self._tables, work, at, open_in_pool(self._tables, work["pool"]), None)


def after(before: Doc, commit: Doc, line: bytes) -> Doc:
    """The tables after one more commit."""
    request, actor = commit["request"], commit["actor"]
    if commit["previous"] != before["tip"]:
        raise Refused("chain_broken", "not a child of the tip")
    for entry in before["requests"]:
        if entry["request_id"] == request["id"]:
            raise Refused("request_conflict", request["id"])
    if request["fingerprint"] != fingerprint(actor, request["kind"], request["parameters"]):
        raise Refused("fingerprint_mismatch")
    check_request(before, commit)
    tables = copied(before)
    if tables["repository"] is None:
        tables["repository"] = actor["repository"]
    tables = apply_operations(tables, commit)
    policy = tables["policy"]
    if commit["policy_epoch"] != tables["policy_epoch"]:
        raise Refused("policy_epoch", commit["policy_epoch"])
    if len(commit["operations"]) > policy["limits"]["operations"]:
        raise Refused("operation_limit")
    check_exhausted(tables, commit["operations"])
    tables["ledger_bytes"] += len(line) + 1
    check_bytes(tables, commit["operations"])
    record(tables, commit, line)
    return tables


def apply_operations(tables: Doc, commit: Doc) -> Doc:
    """Read the operations in order; a Claim batch is planned anew and must come out the same."""
    operations = commit["operations"]
    ordinal = len(tables["requests"])
    works = [op for op in operations if op["kind"] == "Work"]
    claims = [op for op in operations if op["kind"] == "Claim"]
    for op in operations:
        if op["kind"] not in ("Work", "Claim"):
            apply_one(tables, commit, op)
    if works:
        first = len(operations) - len(works)
        admit_all(tables, commit["actor"], ordinal, works, first)
    if claims:
        request = commit["request"]
        already = len(operations) - len(claims)
        found = plan_batch(
            tables, request["parameters"], commit["at"], request["id"], commit["id"], already
        )
        if not found["operations"]:
            raise Refused(found["reason"], "nothing may be granted")
        if found["operations"] != claims:
            raise Refused("claim_mismatch", "not the fair prefix")
        planned: Doc = found["tables"]
        return planned
    return tables


def apply_one(tables: Doc, commit: Doc, op: Doc) -> None:
    """One operation other than Work and Claim."""
    name, at, actor, beside = commit["id"], commit["at"], commit["actor"], commit["operations"]
    readings: dict[str, Callable[[], None]] = {
        "Policy": lambda: apply_policy(tables, op),
        "Observation": lambda: apply_observation(tables, op),
        "Completion": lambda: apply_completion(tables, name, at, op),
        "ClaimCancellation": lambda: apply_claim_cancellation(tables, name, at, op, beside),
        "WorkCancellation": lambda: apply_work_cancellation(tables, name, op),
        "Dispatch": lambda: apply_dispatch(tables, actor, op),
        "Release": lambda: apply_release(tables, op),
        "Result": lambda: apply_result(tables, name, op),
        "DeliveryFailure": lambda: apply_delivery_failure(tables, at, op),
        "Control": lambda: apply_control(tables, op),
        "Deployment": lambda: apply_deployment(tables, op),
        "WorkPriority": lambda: apply_work_priority(tables, op),
        "IssueLink": lambda: apply_issue_link(tables, actor, name, op),
        "IssueComment": lambda: apply_issue_comment(tables, actor, name, op),
    }
    readings[op["kind"]]()


def apply_policy(tables: Doc, op: Doc) -> None:
    """Install a Policy on a board where nothing is open; clocks start anew."""
    for work in tables["works"].values():
        if work["state"] in ("available", "claimed") or work["barrier"] == "pending":
            raise Refused("policy_not_quiescent", work["work_id"])
    for dispatch in tables["dispatches"].values():
        if not dispatch["released"]:
            raise Refused("policy_not_quiescent", dispatch["dispatch_id"])
    if op["epoch"] in tables["seen_epochs"]:
        raise Refused("epoch_reused", op["epoch"])
    check_policy(op["policy"])
    tables["policy"] = op["policy"]
    tables["policy_epoch"] = op["epoch"]
    tables["seen_epochs"][op["epoch"]] = True
    tables["clocks"] = {}
    tables["routes"] = routes_of(op["policy"])


def check_exhausted(tables: Doc, operations: list[Doc]) -> None:
    """A Work out of attempts must not be left in line."""
    for op in operations:
        if op["kind"] == "ClaimCancellation":
            work = tables["works"][op["work_id"]]
            most = tables["policy"]["pools"][work["pool"]]["retry"]["max_attempts"]
            if work["state"] == "available" and work["attempts"] >= most:
                raise Refused("retry_exhausted", op["work_id"])


def record(tables: Doc, commit: Doc, line: bytes) -> None:
    """Put the commit itself on record."""
    request = commit["request"]
    entry: dict[str, Any] = {
        "id": commit["id"],
        "request_id": request["id"],
        "kind": request["kind"],
        "fingerprint": request["fingerprint"],
        "parameters_digest": digest(request["parameters"]),
        "actor": commit["actor"],
        "policy_epoch": commit["policy_epoch"],
        "at": commit["at"],
        "claims": [op["claim_id"] for op in commit["operations"] if op["kind"] == "Claim"],
    }
    if request["kind"] == "dispatch_next":
        entry["dispatch_parameters"] = request["parameters"]
    tables["requests"].append(entry)
    tables["lines"][commit["id"]] = line
    tables["tip"] = commit["id"]
    tables["last_at"] = commit["at"]
