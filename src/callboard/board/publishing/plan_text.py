"""Plan files: YAML or JSON text to plain values, bounded before anything is parsed.

YAML is read as data only: no aliases, no tags of its own, no duplicate keys, no dates. What the
values mean is judged in `plan.py`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from callboard import canonical
from callboard.errors import CallboardError

MAX_PLAN_BYTES = 16 * 1024 * 1024
# YAML is parsed at some 80 KB a second; what is larger comes as JSON, which is not waited for.
MAX_YAML_BYTES = 2 * 1024 * 1024
_MAX_DEPTH = canonical.MAX_DEPTH


def read_plan_text(data: bytes) -> Any:
    """The plain value of a plan file; text that starts with a brace is JSON, else YAML.

    Raises a codec code for JSON, `plan_invalid` with line and column for YAML.
    """
    canonical.check_size(data, MAX_PLAN_BYTES)
    if data.lstrip(b" \t\r\n")[:1] in (b"{", b"["):
        return canonical.decode(data, limit_bytes=MAX_PLAN_BYTES)
    if len(data) > MAX_YAML_BYTES:
        raise CallboardError(
            "resource_limit",
            f"{len(data)} bytes of YAML, more than the {MAX_YAML_BYTES} allowed",
            f"write the plan as JSON, which may have {MAX_PLAN_BYTES} bytes",
            {"bytes": len(data), "limit_bytes": MAX_YAML_BYTES},
        )
    # Once through the codec: integral floats become integers, its number and text rules hold.
    plain = canonical.encode(_yaml(data))
    return canonical.decode(plain, limit_bytes=canonical.MAX_PARSE_BYTES)


def _yaml(data: bytes) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CallboardError(
            "invalid_unicode",
            f"byte {error.start} of the plan is not valid UTF-8",
            "save the plan as UTF-8",
            {"byte": error.start},
        ) from error
    reader = YAML(typ="safe", pure=True)
    reader.Constructor = _constructor()
    reader.allow_duplicate_keys = False
    try:
        _refuse_risky(reader, text)
        value: Any = reader.load(text)
    except (YAMLError, RecursionError, ValueError) as error:
        raise _refused(error) from error
    return value


@cache
def _constructor() -> Any:
    """What makes values of YAML, but for dates: they look like text and would arrive as objects."""
    from ruamel.yaml.constructor import SafeConstructor

    class PlainConstructor(SafeConstructor):
        """Refuses what is no plain value, as it was written."""

    def refuse_date(_self: Any, node: Any) -> Any:
        raise _at(node, f"{node.value[:80]} is a date, not a plain value", "put dates in quotes")

    PlainConstructor.add_constructor("tag:yaml.org,2002:timestamp", refuse_date)
    return PlainConstructor


def _refuse_risky(reader: Any, text: str) -> None:
    depth = 0
    for event in reader.parse(text):
        name = type(event).__name__
        if name == "AliasEvent" or getattr(event, "anchor", None):
            raise _at(event, "anchors and aliases are not allowed", "write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) not in ("", "None", "!"):
            raise _at(event, f"the tag {str(tag)!r} is not allowed", "use plain values")
        if name in ("MappingStartEvent", "SequenceStartEvent"):
            depth += 1
            if depth > _MAX_DEPTH + 1:
                raise _at(event, f"nested deeper than {_MAX_DEPTH} levels", "flatten the plan")
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            depth -= 1


def _at(event: Any, what: str, hint: str) -> CallboardError:
    mark = event.start_mark
    return CallboardError(
        "plan_invalid",
        f"line {mark.line + 1}, column {mark.column + 1}: {what}",
        hint,
        {"line": mark.line + 1, "column": mark.column + 1},
    )


def _refused(error: Exception) -> CallboardError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
    if mark is None:
        return CallboardError("plan_invalid", f"the plan is not YAML: {problem}", "correct it")
    return CallboardError(
        "plan_invalid",
        f"line {mark.line + 1}, column {mark.column + 1}: {problem}",
        "correct the YAML; keys stand once, values are plain data",
        {"line": mark.line + 1, "column": mark.column + 1},
    )
