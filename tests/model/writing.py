"""Records as a careful writer would make them: actors, Policies, Work, evidence, commits.

Nothing here looks at a board's rules; a commit is only put together and sealed.
"""

import random
from typing import Any

from .canon import Doc, commit_identity, fingerprint, work_identity
from .policies import CEILINGS
from .shapes import on_github

REPOSITORY = "example/board"
OTHER_REPOSITORY = "example/library"


def hexes(rng: random.Random, length: int) -> str:
    """Random lower-case hex."""
    return f"{rng.getrandbits(4 * length):0{length}x}"


def seal(
    previous: str | None,
    kind: str,
    actor: Doc,
    parameters: Doc,
    operations: list[Doc],
    at: int,
    request_id: str,
    epoch: str,
    commit_id: str | None = None,
) -> Doc:
    """A complete commit with its derived id and fingerprint."""
    return {
        "version": 3,
        "id": commit_id or commit_identity(previous, request_id),
        "previous": previous,
        "request": {
            "id": request_id,
            "kind": kind,
            "parameters": parameters,
            "fingerprint": fingerprint(actor, kind, parameters),
        },
        "actor": actor,
        "policy_epoch": epoch,
        "at": at,
        "operations": operations,
    }


def reseal(commit: Doc) -> Doc:
    """The commit with the fingerprint of what it now says."""
    request = dict(commit["request"])
    request["fingerprint"] = fingerprint(commit["actor"], request["kind"], request["parameters"])
    return {**commit, "request": request}


def with_operations(commit: Doc, operations: list[Doc]) -> Doc:
    """The commit with other operations, its parameters following them."""
    request = dict(commit["request"])
    if "operations" in request["parameters"]:
        request["parameters"] = {"operations": operations}
    if request["kind"] == "submit":
        request["parameters"] = {"nodes": [op for op in operations if op["kind"] == "Work"]}
    return reseal({**commit, "operations": operations, "request": request})


def person(role: str, principal: str) -> Doc:
    """An actor outside any run."""
    return {"role": role, "principal": principal, "repository": REPOSITORY}


def running(role: str, principal: str, run_id: str, workflow: str) -> Doc:
    """An actor that is a run."""
    return {**person(role, principal), "workflow": workflow, "run_id": run_id, "run_attempt": 1}


def worker(dispatch: Doc, run: Doc, handle: str | None) -> Doc:
    """The worker of a group, speaking for one member or for the whole."""
    actor = running("worker", run["principal"], run["run_id"], run["workflow"])
    actor["dispatch_id"] = dispatch["dispatch_id"]
    if handle is not None:
        actor["claim_handle"] = handle
    return actor


def profile(rng: random.Random, name: str, github: bool, managed: bool, most: int) -> Doc:
    """A worker profile."""
    path = f".github/workflows/{name}.lock.yml" if github else f".callboard/workers/{name}.toml"
    made: Doc = {
        "workflow": path,
        "ref": hexes(rng, 40),
        "trust_domain": "default",
        "credential_scope": "repository",
        "effect_scope": REPOSITORY,
        "max_claims": min(most, rng.choice([1, 2, 3, 4, 16])),
        "share_keys": rng.random() < 0.5,
    }
    if not managed:
        made["principal"] = str(rng.randint(5000, 5999))
    if rng.random() < 0.4:
        made["logical_contract"] = hexes(rng, 64)
    return made


def limits(rng: random.Random, github: bool) -> Doc:
    """Limits at their ceilings, some of them pulled down to where a history runs into them."""
    made = dict(CEILINGS)
    if rng.random() < 0.5:
        made["pending_nodes"] = rng.randint(6, 14)
    if rng.random() < 0.3:
        made["graph_nodes"] = rng.randint(5, 8)
    if rng.random() < 0.3:
        made["operations"] = rng.choice([7, 9, 33])
    if rng.random() < 0.3:
        made["predecessors"] = rng.randint(2, 4)
    if rng.random() < 0.4:
        made["assignment_bytes"], made["result_bytes"] = 8000, 256
    if rng.random() < 0.3:
        made["payload_bytes"] = 600
    if rng.random() < 0.3:
        made["observation_writes"] = rng.randint(4, 9)
    if rng.random() < 0.2:
        made["ledger_bytes"] = rng.randint(30_000, 60_000)
    if rng.random() < 0.4:
        made["recovery_bytes"] = rng.randint(500_000, 1_200_000)
        if not github:
            made["ledger_bytes"] = min(made["ledger_bytes"], 100_000)
    return made


def pool(rng: random.Random, label: str, github: bool, managed: bool, most: int) -> Doc:
    """A pool with one to three profiles and tight limits."""
    names = [f"{label}-{n}" for n in range(rng.randint(1, 3))]
    made: Doc = {
        "default_profile": names[0],
        "profiles": {name: profile(rng, name, github, managed, most) for name in names},
        "logical_limit": rng.choice([1, 2, 4, 6, 16, 16]),
        "native_limit": rng.choice([1, 2, 3, 16, 16]),
        "allowed_repositories": [REPOSITORY, OTHER_REPOSITORY],
        "max_observation_age_ms": rng.randint(3000, 20000),
        "retry": {"max_attempts": rng.randint(1, 3), "backoff_ms": rng.randint(300, 4000)},
        "reconciliation": {
            "max_attempts": rng.randint(1, 3),
            "deadline_ms": rng.randint(3000, 10000),
        },
    }
    if rng.random() < 0.4:
        made["per_account_limit"] = rng.randint(1, 3)
    return made


def policy(rng: random.Random) -> Doc:
    """A Policy of any mode, of either kind of host, with or without listed producers."""
    managed = rng.random() < 0.6
    host = rng.choice(["github", "local", "mixed"])
    bounds = limits(rng, host != "local")
    most = (bounds["operations"] - 1) // 2
    labels = rng.sample(["default", "heavy", "docs"], rng.randint(1, 3))
    weights = {"": 1}
    for key in rng.sample(["a", "b", "\u00e9quipe", "\U0001f600"], rng.randint(0, 4)):
        weights[key] = rng.choice([1, 2, 3, 5, 7, 1000])
    made: Doc = {
        "mode": rng.choice(["weighted-priority", "weighted-priority", "strict-priority"]),
        "class_weights": rng.choice([[8, 4, 2, 1, 1], [5, 3, 2, 7, 11], [1, 1, 1, 1, 1]]),
        "accounting_weights": weights,
        "producers": {},
        "pools": {},
        "limits": bounds,
    }
    for place, label in enumerate(labels):
        github = host == "github" or (host == "mixed" and place == 0)
        made["pools"][label] = pool(rng, label, github, managed, most)
    if managed:
        made["authorization"] = "aw"
    else:
        made["producers"] = entitlements(made, labels)
    add_projectors(rng, made)
    return made


def add_projectors(rng: random.Random, made: Doc) -> None:
    """Rules for mirrors, in half of the Policies, under names or in a row."""
    luck = rng.random()
    if luck < 0.5:
        return
    if luck < 0.55:
        made["projectors"] = rng.choice([[], {}])
        return
    labels = list(made["pools"])
    wide: Doc = {
        "principal": "401",
        "workflow": ".callboard/project",
        "ref": "e" * 40,
        "pools": labels,
        "repositories": [REPOSITORY, OTHER_REPOSITORY],
    }
    narrow = {**wide, "principal": "402", "pools": labels[:1], "repositories": [REPOSITORY]}
    narrow.update(backing_issues=True, completion_policy={"close": False})
    rules = rng.choice([[wide], [narrow], [narrow, wide]])
    if luck < 0.75:
        made["projectors"] = rules
    else:
        made["projectors"] = {f"mirror-{rule['principal']}": rule for rule in rules}


def projector(rule: Doc) -> Doc:
    """The actor a rule for mirrors is about."""
    return running("projector", rule["principal"], "45", rule["workflow"])


def entitlements(made: Doc, labels: list[str]) -> Doc:
    """Producer entries for everybody who submits in a history, and one with narrow rights."""
    everything = {
        "pools": labels,
        "priorities": [1, 2, 3, 4, 5],
        "fairness_keys": list(made["accounting_weights"]),
    }
    names = ["101", "201", "900"]
    for entry in made["pools"].values():
        names += [worker["principal"] for worker in entry["profiles"].values()]
    narrow = {"pools": labels[:1], "priorities": [5], "fairness_keys": [""]}
    return {**dict.fromkeys(names, everything), "102": narrow}


def work(made: Doc, graph: str, key: str, label: str, at: int, **fields: Any) -> Doc:
    """A Work operation under a Policy; fields left out take plain values."""
    name = fields.pop("worker_profile", made["pools"][label]["default_profile"])
    op: Doc = {
        "kind": "Work",
        "work_id": work_identity(graph, key),
        "graph_id": graph,
        "node_key": key,
        "pool": label,
        "priority": 3,
        "fairness_key": "",
        "worker_profile": name,
        "batch_trust_domain": made["pools"][label]["profiles"][name]["trust_domain"],
        "payload": {"effect_contract": {"kind": "none"}},
        "depends_on": [],
        "enqueued": at,
    }
    op.update(fields)
    return op


def evidence(dispatch: Doc, kind: str, principal: str, at: int, **fields: Any) -> Doc:
    """Evidence about a group's worker, from whoever can know it."""
    host = "github_api" if on_github(dispatch["profile"]) else "host_api"
    sources = {"prelaunch": "trusted_publisher", "delivery": "verified_receipts"}
    made: Doc = {
        "kind": kind,
        "source": sources.get(kind, host),
        "repository": REPOSITORY,
        "workflow": dispatch["profile"]["workflow"],
        "ref": dispatch["profile"]["ref"],
        "principal": principal,
        "checked_at": at,
    }
    made.update(fields)
    return made


def terminal(dispatch: Doc, principal: str, at: int, **fields: Any) -> Doc:
    """Evidence that the group's bound run is over."""
    ended = {"run_id": dispatch["run"]["run_id"], "run_attempt": 1, "status": "completed"}
    return evidence(dispatch, "terminal_run", principal, at, **ended, **fields)


def run(dispatch: Doc, principal: str, run_id: str) -> Doc:
    """The run of a group's worker."""
    github = on_github(dispatch["profile"])
    return {
        "run_id": run_id,
        "run_attempt": 1,
        "repository": REPOSITORY,
        "workflow": dispatch["profile"]["workflow"],
        "ref": dispatch["profile"]["ref"],
        "principal": principal,
        "event": "workflow_dispatch" if github else "host_dispatch",
    }


def observation(name: str, edge: Doc, state: str, generation: str, at: int) -> Doc:
    """An Observation of a gate, with proof when it is ready."""
    made: Doc = {
        "kind": "Observation",
        "observation_id": name,
        "resource": edge["resource"],
        "condition": edge["condition"],
        "state": state,
        "observed_at": at,
        "credential_generation": generation,
        "read_status": "http_404" if state == "unknown" else "ok",
    }
    if state == "ready" and edge["kind"] == "issue":
        made.update(resource_state="closed", state_reason="completed")
    elif state == "ready":
        made.update(resource_state="closed", merged=True, merge_commit="c" * 40)
    elif state == "waiting":
        made.update(resource_state="open")
    elif state == "failed" and edge["kind"] == "issue":
        made.update(resource_state="closed", state_reason="not_planned")
    elif state == "failed":
        made.update(resource_state="closed", merged=False)
    return made
