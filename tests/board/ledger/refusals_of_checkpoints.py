"""What is refused of checkpoints; part of the table of refusals."""

from __future__ import annotations

from callboard import canonical
from callboard.board.ledger.history import History
from tests.board.ledger.checkpoints import Chain, made, resealed, with_payload_depth
from tests.board.ledger.refusals import case
from tests.model.canon import Doc
from tests.model.history import random_history


def begun() -> Chain:
    return Chain(random_history(1, 6))


def record(chain: Chain) -> Doc:
    found: Doc = canonical.decode(chain.compact()[:-1])
    return found


@case("checkpoint_misplaced", "follows", wrapped=True)
def a_checkpoint_behind_others() -> None:
    chain = begun()
    before = chain.data
    found = record(chain)
    found["previous"] = found["request"]["parameters"]["prior_tip"]
    History.read(before + canonical.encode(found) + b"\n")


@case("checkpoint_mismatch", "state_sha256", wrapped=True)
def a_digest_of_another_state() -> None:
    found = record(begun())
    found["operations"][0]["state"]["grants_paused"] ^= True
    History.read(canonical.encode(found) + b"\n")


@case("checkpoint_invalid", "/stats/work", wrapped=True)
def a_state_that_counts_wrongly() -> None:
    found = record(begun())
    found["operations"][0]["state"]["stats"]["work"] += 1
    History.read(resealed(found))


@case("checkpoint_limit", "64 levels")
def a_state_that_is_too_deep() -> None:
    chain = Chain([with_payload_depth(59)])
    made(chain.data, chain.read().projection)


@case("history_unavailable", "without its repository")
def what_came_before_a_checkpoint_in_a_file() -> None:
    chain = begun()
    chain.compact()
    History.read(chain.data).commit(0)
