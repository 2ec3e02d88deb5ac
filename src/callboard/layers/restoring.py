"""Giving back what was taken away of a layer: the folders that the machine writes into.

Agents may do anything to their own files, and a folder that is missing must stop no layer. No file
is ever made anew here, as nobody knows what was in it; what stands in a folder's place is refused.
"""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.layers.attempts import place_of
from callboard.layers.disk import Disk, Kind
from callboard.layers.tree import FOLDERS, Layer, read_layer

_ABOVE = ("", *sorted({one.rpartition("/")[0] for one in FOLDERS} - {""}))
_ALL = (*_ABOVE[1:], *FOLDERS)


def folders(disk: Disk, layer: Layer) -> None:
    """See that the layer has all its folders.

    Raises `layer_missing` or `layer_corrupt` where the layer itself is gone, and `path_invalid`
    where something else stands in a folder's place.
    """
    there: dict[str, Kind] = {}
    # Asked in each step, so a folder is looked into once for all that belong there.
    for above in _ABOVE:
        for name, kind in disk.entries(f"{layer.place}/{above}".rstrip("/")):
            there[f"{above}/{name}".lstrip("/")] = kind
    missing = [one for one in _ALL if _is_missing(layer.file(one), there.get(one))]
    if missing:
        _still_there(disk, layer)
    for one in missing:
        disk.make_folder(layer.file(one))


def attempt_folder(disk: Disk, layer: Layer, attempt: str) -> None:
    """See that the attempt has a folder; a link or a file in its place is taken away.

    What the machine says of an attempt lies there, so nobody else may lead it elsewhere. Raises as
    `folders` does.
    """
    place = place_of(layer, attempt)
    attempts = layer.file("attempts")
    _is_missing(attempts, disk.kind(attempts))
    if disk.kind(place) == "folder":
        return
    _still_there(disk, layer)
    disk.remove(place)
    disk.make_folder(place)


def _still_there(disk: Disk, layer: Layer) -> None:
    """Refuse to make folders for a layer that was taken away as a whole."""
    read_layer(disk, layer.place)


def _is_missing(place: str, kind: Kind | None) -> bool:
    if kind not in (None, "folder"):
        raise CallboardError(
            "path_invalid",
            f"{place} is no folder: a file or a link stands in its place",
            "look who put it there, move it away, and run again: the folder is made anew",
            {"place": place},
        )
    return kind is None
