"""The inputs of a request: which files a child may be given, and the names it gets them by.

Source: specification 3 (no mutable ledger is ever an input); layers.md §4. It reads, and judges no
digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from callboard.canonical import sha256_hex
from callboard.errors import CallboardError
from callboard.layers import names, references
from callboard.layers.around import Around
from callboard.layers.requests.places import LEDGER, MUTABLE
from callboard.layers.tree import SESSIONS, Layer

MAX_INPUT_BYTES = 16 * 1024 * 1024
MAX_INPUTS_BYTES = 64 * 1024 * 1024
_MAX_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class Found:
    """One input as it lies there now."""

    ref: str
    name: str
    """The name that it gets in the child."""
    data: bytes


def found(around: Around, layer: Layer, refs: Iterable[str]) -> Iterator[Found]:
    """The files that `refs` of a request of `layer` mean to the child, one after the other.

    Raises `input_mutable`, `input_twin`, `resource_limit` for too large ones, and what references
    and files are refused with.
    """
    twins: dict[str, str] = {}
    total = 0
    for number, ref in enumerate(refs, start=1):
        place = references.place_for_child(around.disk, layer, ref)
        _check_lasting(layer, ref, place)
        first = twins.get(names.twin(place))
        if first is not None:
            raise CallboardError(
                "input_twin",
                f"{ref!r} would be confused with {first!r}",
                "give each input once",
                {"ref": ref, "first": first},
            )
        twins[names.twin(place)] = ref
        data = _read(around, ref, place)
        total += len(data)
        if total > MAX_INPUTS_BYTES:
            raise CallboardError(
                "resource_limit",
                f"the inputs have more than {MAX_INPUTS_BYTES} bytes together",
                "name fewer or smaller files",
                {"limit_bytes": MAX_INPUTS_BYTES},
            )
        yield Found(ref, name_in_child(number, ref), data)


def _read(around: Around, ref: str, place: str) -> bytes:
    try:
        return around.disk.read(place, MAX_INPUT_BYTES, what=f"the input {ref!r}")
    except CallboardError as error:
        if error.code != "path_invalid":
            raise
        raise CallboardError(
            "reference_out_of_scope",
            f"the reference {ref!r} is out of scope: it leads through a link",
            "name a plain file below plain folders",
            {"ref": ref},
        ) from error


def _check_lasting(layer: Layer, ref: str, place: str) -> None:
    """Refuse what changes while its layer lives, and every ledger, under whatever spelling."""
    owner, path = _within_layer(place)
    # Beside this layer and those above it, no other one lives.
    lives = f"{layer.place}/".startswith(f"{owner}/")
    folded = names.twin(path)
    if folded == LEDGER or (lives and folded in MUTABLE):
        raise CallboardError(
            "input_mutable",
            f"{ref!r} changes while its layer lives, so its digest cannot hold",
            "put what the child needs into the snapshot of the request",
            {"ref": ref},
        )


def _within_layer(place: str) -> tuple[str, str]:
    """The layer's place that a place lies in, and the path there; empty for a file of none."""
    if not place.startswith(f"{SESSIONS}/"):
        return "", ""
    head, *steps = place.removeprefix(f"{SESSIONS}/").split("/")
    owner = f"{SESSIONS}/{head}"
    while len(steps) > 2 and names.twin(steps[0]) == "children":
        owner, steps = f"{owner}/{steps[0]}/{steps[1]}", steps[2:]
    return owner, "/".join(steps)


def name_in_child(number: int, ref: str) -> str:
    """What the input `number` of a request, counted from 1, is called in the child.

    The file's own name, unless a number before it would make it too long: then its ending.
    """
    name = ref.rpartition("/")[2]
    if len(name.encode()) > _MAX_NAME_BYTES:
        _, dot, ending = name.rpartition(".")
        digest = sha256_hex(name.encode())[:16]
        name = f"{digest}{dot}{ending}" if len(ending.encode()) <= 20 else digest
    return f"{number:03d}_{name}"
