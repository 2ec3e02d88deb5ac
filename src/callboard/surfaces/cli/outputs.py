"""`callboard outputs …`: what the gate of the outputs would say, asked without a board.

Each command reads one JSON document and judges it with the functions that judge a run's outputs.
Nothing is opened but the document, and no answer authorises anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from callboard import canonical
from callboard.board.outputs.decision import (
    MAX_QUESTION_BYTES,
    Question,
    denial,
    parse_question,
)
from callboard.board.protocol.contract import contract_faults
from callboard.errors import CallboardError
from callboard.surfaces.cli.chosen import boardless_options
from callboard.surfaces.cli.inputs import STANDARD_INPUT, read_input
from callboard.surfaces.cli.render import Block, Hint, Table, bad, count, emit, faint
from callboard.validate import Fault

_FILE = click.argument("file", default=STANDARD_INPUT, metavar="[FILE|-]")


@click.group()
def outputs() -> None:
    """Ask the gate of the outputs: what a scope lets a run touch, and whether a contract is sound.

    Both answers are the gate's own; neither needs a repository.
    """


@outputs.command(short_help="Say whether a target may be touched.")
@_FILE
@boardless_options
@click.pass_context
def decide(context: click.Context, file: str) -> None:
    """Say whether a run may touch a target, from FILE or standard input.

    The document is {effect_scope, host?, run_id, payload, subject?, target}. Denied is an answer
    like any other and ends with 0; only a document that asks nothing is refused.
    """
    question = parse_question(_read(file, "decision"))
    refusal = denial(question)
    document = {"allowed": refusal is None, "code": refusal.code if refusal else None}
    emit(context, document, lambda: _decision_text(question, refusal))


def _decision_text(question: Question, refusal: CallboardError | None) -> Iterator[Block]:
    if refusal is None:
        yield f"allowed: run {question.run_id} may touch it"
        return
    yield bad(f"denied: {refusal.message}")
    yield Hint(refusal.hint)
    yield faint(f"code: {refusal.code}")


@outputs.command(short_help="Say whether an effect contract is sound.")
@_FILE
@boardless_options
@click.pass_context
def contract(context: click.Context, file: str) -> None:
    """Say whether an effect contract is sound, from FILE or standard input, and list its faults.

    The document is what stands in a payload under effect_contract. An unsound one is an answer like
    any other and ends with 0.
    """
    faults = contract_faults(_read(file, "contract"))
    document = {
        "valid": not faults,
        "code": "contract_invalid" if faults else None,
        "faults": [fault.document() for fault in faults],
    }
    emit(context, document, lambda: _contract_text(faults))


def _contract_text(faults: list[Fault]) -> Iterator[Block]:
    if not faults:
        yield "valid"
        return
    yield bad(f"not valid: {count(len(faults), 'fault')}")
    yield Table(("where", "fault"), [(one.pointer or "/", one.message) for one in faults])
    yield faint("code: contract_invalid")


def _read(file: str, what: str) -> canonical.Json:
    data = read_input(file, limit_bytes=MAX_QUESTION_BYTES, what=what)
    return canonical.decode(data, limit_bytes=MAX_QUESTION_BYTES)
