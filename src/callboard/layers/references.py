"""Logical references of durable records, and the resolver that keeps them within their scope.

`repo:/…`, `session:/…`, `parent:/…`, `root:/…`, `session:<id>:/…` (a layer of the same tree),
`trace:<id>:/…` (its raw traces). No reference is decoded, and none leads through a link, into
another tree, or past the sessions into the files of the machine.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from callboard.errors import CallboardError
from callboard.layers.disk import Disk
from callboard.layers.names import is_id, twin
from callboard.layers.tree import (
    LAYERS,
    SESSIONS,
    TRACES,
    Layer,
    child_ids,
    ids_of,
    read_layer,
    roots,
)
from callboard.visible import visible

MAX_CHARACTERS = 1024
MAX_STEP_BYTES = 255

Scheme = Literal["repo", "session", "parent", "root", "trace"]

_SCHEMES: dict[str, Scheme] = {
    "repo": "repo", "session": "session", "parent": "parent", "root": "root", "trace": "trace",
}  # fmt: skip
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference in its parts; `session_id` is None where the scheme says whose file it is."""

    scheme: Scheme
    session_id: str | None
    path: str
    """Relative to what the scheme names; never empty."""

    def __str__(self) -> str:
        owner = "" if self.session_id is None else f"{self.session_id}:"
        return f"{self.scheme}:{owner}/{self.path}"


# --- the form -------------------------------------------------------------------------------------


def parse(ref: str) -> Reference:
    """The reference in `ref`, or the refusal `reference_invalid`."""
    if len(ref) > MAX_CHARACTERS:
        raise _invalid(ref, f"it has {len(ref)} characters, more than {MAX_CHARACTERS}")
    if visible(ref) != ref:
        raise _invalid(ref, "it has characters that cannot be seen")
    head, slash, path = ref.partition("/")
    if not slash or not head.endswith(":"):
        raise _invalid(ref, "it has no scheme that ends in `:/`")
    name, colon, owner = head[:-1].partition(":")
    scheme = _SCHEMES.get(name)
    if scheme is None:
        raise _invalid(ref, f"the scheme '{name}' is none of {', '.join(_SCHEMES)}")
    if bool(colon) != (scheme == "trace") and scheme != "session":
        raise _invalid(ref, "only `session` and `trace` name a session, and `trace` has to")
    if colon and not is_id(owner):
        raise _invalid(ref, f"'{owner}' is no session id")
    for step in path.split("/"):
        wrong = _wrong_step(step)
        if wrong is not None:
            raise _invalid(ref, wrong)
    return Reference(scheme, owner if colon else None, path)


def _wrong_step(step: str) -> str | None:
    if not step:
        return "it has an empty step"
    if _ENCODED.search(step):
        return f"'{step}' looks encoded; references are written plainly and never decoded"
    plain = unicodedata.normalize("NFKC", step)
    if plain.strip(" .") == "" or "/" in plain or "\\" in plain:
        return f"'{step}' is no plain name of a file or folder"
    if len(step.encode()) > MAX_STEP_BYTES:
        return f"a step has more than {MAX_STEP_BYTES} bytes"
    return None


def _invalid(ref: str, what: str) -> CallboardError:
    return CallboardError(
        "reference_invalid",
        f"the reference '{visible(ref[:200])}' is refused: {what}",
        "write it as `repo:/path`, `session:/path`, `parent:/path`, `root:/path`,"
        " `session:<id>:/path` or `trace:<id>:/path`",
        {"ref": visible(ref[:200]), "what": what},
    )


# --- the place ------------------------------------------------------------------------------------


def place_of(disk: Disk, layer: Layer, ref: str) -> str:
    """The place that `ref` means to `layer`; there need be nothing.

    Raises `reference_invalid`, `reference_out_of_scope`, `layer_missing` for a session that is
    nowhere in the tree, and `layer_corrupt` or `topology_broken` where the way there is damaged.
    """
    reference = parse(ref)
    place = f"{_base(disk, layer, reference)}/{reference.path}".removeprefix("/")
    _confine(disk, layer, reference, place)
    return place


def place_for_child(disk: Disk, parent: Layer, ref: str) -> str:
    """The place that `ref` in a child request means: as the child to be will read it.

    `parent:/…` is the layer that asks. `session:/…` is out of scope: the child has no file yet.
    """
    reference = parse(ref)
    if reference.scheme == "parent":
        return place_of(disk, parent, f"session:/{reference.path}")
    if reference.scheme == "session" and reference.session_id is None:
        raise _outside(reference, "the child that it speaks of has no files yet; use `parent:/…`")
    return place_of(disk, parent, ref)


def read_ref(disk: Disk, layer: Layer, ref: str, limit_bytes: int) -> bytes:
    """The bytes of the file that `ref` means to `layer`.

    Raises what `place_of` does, `file_missing`, `file_not_regular`, or `resource_limit` for more
    than `limit_bytes`.
    """
    place = place_of(disk, layer, ref)
    try:
        return disk.read(place, limit_bytes, what="the referenced file")
    except CallboardError as error:
        if error.code == "path_invalid":
            raise _outside(parse(ref), "it leads through a link") from error
        raise


def ref_to(layer: Layer, place: str) -> str:
    """The reference that names, to `layer` itself, a place in its folder."""
    path = place.removeprefix(f"{layer.place}/")
    if path == place:
        raise CallboardError(
            "reference_out_of_scope",
            f"'{visible(place)[:200]}' does not lie in the folder of {layer.session.session_id}",
            "name files of this layer only",
        )
    return str(parse(f"session:/{path}"))


def _base(disk: Disk, layer: Layer, reference: Reference) -> str:
    if reference.scheme == "repo":
        return ""
    ids = ids_of(layer.place)
    if reference.scheme == "root":
        return f"{SESSIONS}/{ids[0]}"
    if reference.scheme == "parent":
        if len(ids) == 1:
            raise _outside(reference, "a root layer has no parent")
        return layer.place.rpartition("/children/")[0]
    if reference.session_id is None:
        return layer.place
    place = _find(disk, layer, ids, reference)
    if reference.scheme == "session":
        return place
    return f"{TRACES}/{ids[0]}/sessions/{reference.session_id}"


def _find(disk: Disk, layer: Layer, ids: list[str], reference: Reference) -> str:
    """Where in the tree of `layer` the named session lies."""
    wanted = reference.session_id
    assert wanted is not None
    if wanted in ids:
        # The places of the layers above are part of this one's own.
        return f"{SESSIONS}/" + "/children/".join(ids[: ids.index(wanted) + 1])
    found = _places(disk, f"{SESSIONS}/{ids[0]}", wanted)
    if len(found) > 1:
        raise CallboardError(
            "topology_broken",
            f"the session {wanted} lies in {len(found)} places: {', '.join(found)[:400]}",
            "run `callboard layers check` for all that is wrong",
            {"session_id": wanted, "places": found},
        )
    if found:
        return found[0]
    for other in roots(disk):
        if other == wanted or _places(disk, f"{SESSIONS}/{other}", wanted):
            raise _outside(reference, f"that session belongs to another root, {other}")
    raise CallboardError(
        "layer_missing",
        f"the reference '{reference}' names a session that is not in the tree of {ids[0]}",
        "list the layers with `callboard layers status`",
        {"ref": str(reference), "session_id": wanted},
    )


def _places(disk: Disk, place: str, wanted: str) -> list[str]:
    """Where below a layer's place a session lies, by the names of folders alone."""
    found: list[str] = []
    rest = [place]
    while rest:
        below = rest.pop()
        for name in child_ids(disk, below):
            deeper = f"{below}/children/{name}"
            rest.append(deeper)
            if name == wanted:
                found.append(deeper)
    return sorted(found)


def _confine(disk: Disk, layer: Layer, reference: Reference, place: str) -> None:
    if reference.scheme == "repo":
        steps = [twin(step) for step in reference.path.split("/")]
        if steps[:2] == LAYERS.split("/"):
            raise _outside(reference, "files of layers are named by their session")
        if ".git" in steps:
            raise _outside(reference, "the files of Git are no evidence")
    elif any(step.startswith(".") for step in reference.path.split("/")):
        raise _outside(reference, "names that begin with a dot are temporary")
    else:
        _verify(disk, layer, place)
    try:
        kind = disk.kind(place)
    except CallboardError as error:
        if error.code == "path_invalid":
            raise _outside(reference, "it leads through a link") from error
        raise
    if kind == "other":
        raise _outside(reference, "it is a link, a pipe or a device")


def _verify(disk: Disk, layer: Layer, place: str) -> None:
    """That every layer on the way is what its place says, and that the way begins at the root."""
    if place.startswith(f"{TRACES}/"):
        return
    steps = place.split("/")
    start = len(SESSIONS.split("/")) + 1
    known = "/".join(steps[:start])
    read_layer(disk, known)
    while steps[start : start + 1] == ["children"] and len(steps) > start + 1:
        start += 2
        known = "/".join(steps[:start])
        if not is_id(steps[start - 1]):
            return
        found = read_layer(disk, known)
        if found.session.repository_id != layer.session.repository_id:
            raise CallboardError(
                "topology_broken",
                f"{known}: it belongs to the repository {found.session.repository_id}",
                "run `callboard layers check` for all that is wrong",
                {"place": known},
            )


def _outside(reference: Reference, why: str) -> CallboardError:
    return CallboardError(
        "reference_out_of_scope",
        f"the reference '{reference}' is out of scope: {why}",
        "name a file of the repository, of this layer, or of a layer of the same tree",
        {"ref": str(reference), "why": why},
    )
