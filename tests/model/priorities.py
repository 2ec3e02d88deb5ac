"""The priority a Work competes with: the admitted one, until an administrator sets another.

The admitted priority, the place in line, clocks and retry times are never touched here.
"""

from .canon import Doc, Refused


def effective(tables: Doc, work: Doc) -> int:
    """The class a Work competes in now."""
    return int(tables["priorities"].get(work["work_id"], work["priority"]))


def apply_work_priority(tables: Doc, op: Doc) -> None:
    """Compare and set the class of a Work that nobody holds."""
    work = tables["works"].get(op["work_id"])
    if work is None:
        raise Refused("work_unknown", op["work_id"])
    if work["state"] != "available":
        raise Refused("work_closed", work["state"])
    if op["expected_priority"] != effective(tables, work):
        raise Refused("priority_conflict", str(effective(tables, work)))
    tables["priorities"][op["work_id"]] = op["priority"]


def priority_document(tables: Doc, work: Doc) -> Doc:
    """The effective priority, where it is not the admitted one."""
    now = effective(tables, work)
    return {} if now == work["priority"] else {"effective_priority": now}
