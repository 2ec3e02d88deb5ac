"""Names that people and agents give: stricter than the wire, so that they are safe everywhere.

A ledger may hold other names; what is posted through this program keeps to these.
"""

from __future__ import annotations

from callboard.board.protocol.scalars import MAX_IDENTITY_BYTES
from callboard.validate import Fault, is_text, show

MAX_NAME_BYTES = MAX_IDENTITY_BYTES


def name_faults(name: str, pointer: str) -> list[Fault]:
    """Why `name` cannot stand as a graph, node, pool, profile or request name."""
    if not name or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return [Fault(pointer, f"{show(name)} must have 1 to {MAX_NAME_BYTES} UTF-8 bytes")]
    if not is_text(name):
        return [Fault(pointer, f"{show(name)} is not valid Unicode")]
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return [Fault(pointer, f"{show(name)} holds a control character")]
    if ".." in name:
        return [Fault(pointer, f"{show(name)} holds '..'")]
    if name.startswith("-"):
        return [Fault(pointer, f"{show(name)} starts with '-'")]
    if name != name.strip():
        return [Fault(pointer, f"{show(name)} starts or ends with a space")]
    return []
