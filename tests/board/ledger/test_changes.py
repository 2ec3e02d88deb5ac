"""Any one field of any record changed: refused with a code, or read as the model reads it.

An ordinary run takes a sample of the changes; `make test-deep` takes every one of many histories.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from callboard.board.protocol.envelope import read_line
from callboard.errors import CallboardError
from tests.ambient import DEEP
from tests.board.ledger import changes
from tests.board.ledger.judging import Difference, Trial, differences, wire
from tests.fuzz.targets import listed_codes
from tests.model.history import random_history

HISTORIES = range(240) if DEEP else range(0, 240, 60)
STEPS = 60 if DEEP else 40
SHARE = 1.0 if DEEP else 0.006
FOLLOW = 60 if DEEP else 15

# What no history of the model holds yet.
LATER_RECORDS = ("Checkpoint", "CheckpointParameters", "CheckpointRequest")
CODEC_CODES = ("invalid_unicode", "noncanonical_number", "invalid_json", "resource_limit")


class Silence(NamedTuple):
    """A place where the written rules say nothing, and the two readings differ on purpose."""

    field: str
    engine: str
    model: str
    reading: str


SILENCES = [
    Silence(
        r"Resource\.(repository_id|resource_id)|Work\.(subject|backing_issue)"
        r"|(Observation|\w+Dependency)\.resource|Work\.depends_on\[\]",
        "accepted",
        "schema_invalid",
        "ids of resources are identities to the engine, decimals to the model",
    ),
    Silence(
        r"Evidence\.(run_id|run_attempt)",
        "accepted",
        "schema_invalid",
        "the pair of run_id and run_attempt is demanded of actors; the model asks it of evidence",
    ),
    Silence(
        r"Observation\.source_updated_at",
        "accepted",
        "schema_invalid",
        "a source's own time may be a text to the engine, the model knows a timestamp",
    ),
    Silence(
        r"(PolicyDocument\.accounting_weights|Producer\.fairness_keys)(\[\])?|Work\.fairness_key",
        "accepted",
        "fairness_key_unknown",
        "where producers are enrolled, a key of theirs without a weight has weight 1 to the engine",
    ),
    Silence(
        r"Actor\.principal",
        "run_binding_conflict",
        "accepted",
        "the engine lets a worker act under the principal of its run alone",
    ),
    Silence(
        r"Evidence\.source",
        "accepted",
        "evidence_invalid",
        "the engine takes a delivery also from the host or the publisher, github_api anywhere",
    ),
    Silence(
        r"Evidence\.kind",
        "accepted",
        "evidence_invalid",
        "a DeliveryFailure may rest on evidence of another kind that shows the run's end as well",
    ),
    Silence(
        r"Work\.priority",
        "replacement_invalid",
        "accepted",
        "a remedy in a better class than what it replaces is refused by the engine",
    ),
    Silence(
        r"(QueueCommit|OperationsParameters)\.operations(\[\])?|QueueCommit\.request",
        "accepted",
        "operations_not_allowed",
        "a cancel_claim may hold Work cancellations alone to the engine",
    ),
    Silence(
        r"DispatchNextParameters\.worker_profiles(\[\])?",
        "accepted",
        "schema_invalid",
        "a caller may name a worker twice to the engine, as it names no other by that",
    ),
]


def is_silent(found: Difference) -> bool:
    return any(
        re.fullmatch(one.field, re.sub(r"\{\}.*|\[\]$", "", found.field))
        or re.fullmatch(one.field, found.field)
        for one in SILENCES
        if (one.engine, one.model) == (found.engine, found.model)
    )


@pytest.mark.parametrize("forged", [False, True], ids=["found", "forged"])
@pytest.mark.parametrize("seed", HISTORIES)
def test_a_changed_field_is_refused_or_means_the_same_to_the_model(seed: int, forged: bool) -> None:
    history = random_history(seed, STEPS)
    found = differences(history, forged=forged, seed=seed, share=SHARE, follow=FOLLOW)
    assert [str(one) for one in found if not is_silent(one)] == []


def test_every_field_of_every_record_is_changed() -> None:
    seen: set[str] = set()
    for seed in range(6):
        history = random_history(seed, 60)
        known = changes.known(history)
        for commit in history:
            for change in changes.changes(commit, known):
                seen.add(re.sub(r"(\[\]|\{\}).*", "", change.field))
    left = {name for name in changes.declared() - seen if name.split(".")[0] not in LATER_RECORDS}
    assert left == set()


def test_values_said_to_be_sound_and_unsound_are() -> None:
    history = random_history(3, 20)
    known = changes.known(history)
    for commit in history[:6]:
        for change in changes.changes(commit, known):
            try:
                read_line(wire(change.document))
                code = "read"
            except CallboardError as error:
                code = error.code
            if change.what == "unsound" or change.field.endswith(".?"):
                assert code in ("record_invalid", "unsupported_protocol", *CODEC_CODES), change
            elif change.what == "sound":
                assert code == "read", change


def test_refusals_carry_listed_codes() -> None:
    trial = Trial(random_history(1, 12))
    for _ in range(11):
        trial.advance()
    for change in trial.changes():
        trial.judge(change, forged=True, follow=0)
    assert trial.codes <= listed_codes()
    assert len(trial.codes) >= 3
