"""Giving back what was taken away of a layer: the folders that the machine writes into.

Agents may do anything to their own files, and a folder that is missing must stop no layer. No file
is ever made anew here, as nobody knows what was in it; what stands in a folder's place is refused.
"""

from __future__ import annotations

from callboard.errors import CallboardError
from callboard.layers.attempts import place_of
from callboard.layers.disk import Disk
from callboard.layers.tree import FOLDERS, Layer, read_layer


def folders(disk: Disk, layer: Layer) -> None:
    """See that the layer has all its folders.

    Raises `layer_missing` or `layer_corrupt` where the layer itself is gone, and `path_invalid`
    where something else stands in a folder's place.
    """
    missing = [place for place in map(layer.file, FOLDERS) if _is_missing(disk, place)]
    if missing:
        _still_there(disk, layer)
    for place in missing:
        disk.make_folder(place)


def attempt_folder(disk: Disk, layer: Layer, attempt: str) -> None:
    """See that the attempt has a folder; a link or a file in its place is taken away.

    What the machine says of an attempt lies there, so nobody else may lead it elsewhere. Raises as
    `folders` does.
    """
    place = place_of(layer, attempt)
    _is_missing(disk, layer.file("attempts"))
    if disk.kind(place) == "folder":
        return
    _still_there(disk, layer)
    disk.remove(place)
    disk.make_folder(place)


def _still_there(disk: Disk, layer: Layer) -> None:
    """Refuse to make folders for a layer that was taken away as a whole."""
    read_layer(disk, layer.place)


def _is_missing(disk: Disk, place: str) -> bool:
    kind = disk.kind(place)
    if kind not in (None, "folder"):
        raise CallboardError(
            "path_invalid",
            f"{place} is no folder: a file or a link stands in its place",
            "look who put it there, move it away, and run again: the folder is made anew",
            {"place": place},
        )
    return kind is None
