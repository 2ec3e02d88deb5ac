"""The model's whole memory: one plain dict of tables, its copy and its public document.

Entries are replaced or get new top-level keys; nothing nested is ever changed in place, so a copy
one level deep is a true copy.
"""

import json
from typing import Any

from .canon import Doc, gate_identity
from .clocks import shown
from .mirrors import mirrors_document
from .priorities import priority_document
from .routes import admission_document, deployments_document


def empty() -> Doc:
    """The tables of a board without a single commit."""
    return {
        "repository": None,
        "tip": None,
        "policy_epoch": None,
        "policy": None,
        "works": {},
        "claims": {},
        "dispatches": {},
        "observations": {},
        "requests": [],
        "clocks": {},
        "admission_paused": False,
        "grants_paused": False,
        "credential_generation": "initial",
        "ledger_bytes": 0,
        "observation_writes": 0,
        "seen_epochs": {},
        "seen_generations": {"initial": True},
        "observation_ids": {},
        "terminal_barriers": {},
        "cancellations": {},
        "completion_times": {},
        "last_at": 0,
        "issue_links": {},
        "issue_comments": {},
        # Not part of the document as they are: what tells an exact repetition from a clash, and
        # what the document shows only where it says something.
        "lines": {},
        "routes": {},
        "admissions": {},
        "priorities": {},
    }


def copied(tables: Doc) -> Doc:
    """Tables that can be changed without touching the original."""
    fresh: Doc = {}
    for name, value in tables.items():
        if name in ("works", "claims", "dispatches"):
            fresh[name] = {key: dict(entry) for key, entry in value.items()}
        elif name == "clocks":
            fresh[name] = {
                pool: {"classes": entry["classes"], "keys": dict(entry["keys"])}
                for pool, entry in value.items()
            }
        elif name == "policy":
            fresh[name] = value
        elif isinstance(value, dict):
            fresh[name] = dict(value)
        elif isinstance(value, list):
            fresh[name] = list(value)
        else:
            fresh[name] = value
    return fresh


def gates_of(work: Doc) -> list[Doc]:
    """The Issue and pull request edges of a Work, in edge order."""
    return [edge for edge in work["depends_on"] if edge["kind"] != "work"]


def predecessors_of(work: Doc) -> list[str]:
    """The ids of the Work edges of a Work, in edge order."""
    return [edge["work_id"] for edge in work["depends_on"] if edge["kind"] == "work"]


def claims_of(tables: Doc, dispatch_id: str) -> list[Doc]:
    """Every Claim of a worker group."""
    return [c for c in tables["claims"].values() if c["dispatch_id"] == dispatch_id]


def open_claims_of(tables: Doc, dispatch_id: str) -> list[Doc]:
    """The Claims of a worker group that nothing has closed yet."""
    return [c for c in claims_of(tables, dispatch_id) if c["state"] == "open"]


def document(tables: Doc) -> Doc:
    """The state document: plain JSON that shares nothing with the tables."""
    hidden = ("lines", "routes", "admissions", "priorities", "issue_links", "issue_comments")
    public = {name: value for name, value in tables.items() if name not in hidden}
    public["works"] = {
        name: {**work, **priority_document(tables, work), **admission_document(tables, work)}
        for name, work in tables["works"].items()
    }
    public["clocks"] = clock_document(tables)
    public["stats"] = stats(tables)
    public.update(mirrors_document(tables))
    deployments = deployments_document(tables) if tables["policy"] else {}
    if deployments:
        public["deployments"] = deployments
    plain: Doc = json.loads(json.dumps(public))
    return plain


def clock_document(tables: Doc) -> Doc:
    """The clocks in ticks."""
    found: Doc = {}
    for pool, entry in tables["clocks"].items():
        classes = tables["policy"]["class_weights"]
        keys = list(tables["policy"]["accounting_weights"].values())
        found[pool] = {
            "classes": shown(entry["classes"], classes),
            "keys": {str(level): shown(clock, keys) for level, clock in entry["keys"].items()},
        }
    return found


def stats(tables: Doc) -> Doc:
    """Counts, each by one full pass."""
    works = list(tables["works"].values())
    counts: dict[str, Any] = {"work": len(works)}
    for state in ("available", "claimed", "completed", "cancelled"):
        counts[state] = sum(1 for work in works if work["state"] == state)
    counts["claims"] = len(tables["claims"])
    counts["dispatches"] = sum(1 for d in tables["dispatches"].values() if not d["released"])
    counts["transactions"] = len(tables["requests"])
    counts["nodes"] = sum(
        graph_size(works, graph) for graph in {work["graph_id"] for work in works}
    )
    return counts


def graph_size(works: list[Doc], graph: str) -> int:
    """Nodes of one graph: its Work, plus each distinct gate once."""
    members = [work for work in works if work["graph_id"] == graph]
    gates = set()
    for work in members:
        for edge in gates_of(work):
            gates.add(gate_identity(edge["resource"], edge["condition"]))
    return len(members) + len(gates)
