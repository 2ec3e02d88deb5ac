"""Rewrites the uses of an old SDK call that the inspection found, and delivers a patch."""

import ast
import json
import pathlib
import re

import assignment
from inspect_usages import is_call


def seconds(text: str) -> str:
    """An expression in milliseconds as one in seconds."""
    digits = text.replace("_", "")
    if digits.isdecimal():
        return f"{int(digits) / 1000:g}"
    return "timeout_s" if text == "timeout_ms" else f"{text} / 1000"


def rewrite_code(path: pathlib.Path, places: list[dict], old: str, new: str) -> None:
    """Rewrite the calls at `places` of one module, the last one first."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    calls = {
        (node.lineno, node.col_offset): node
        for node in ast.walk(ast.parse(source))
        if is_call(node, old)
    }
    for place in sorted(places, key=lambda one: (one["line"], one["column"]), reverse=True):
        node = calls[place["line"], place["column"]]
        words = [*node.args, *(keyword.value for keyword in node.keywords)]
        where, limit = (ast.get_source_segment(source.decode(), word) for word in words)
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        call = f"sdk.{new}({where}, timeout_s={seconds(limit)})"
        source = source[:begin] + call.encode() + source[end:]
    path.write_bytes(source)


def rewrite_page(path: pathlib.Path, places: list[dict], old: str, new: str) -> None:
    """Rewrite the lines at `places` of one page."""

    def call(match: re.Match[str]) -> str:
        limit = seconds(match[2])
        return f"sdk.{new}({match[1]}, {limit if limit == 'timeout_s' else f'timeout_s={limit}'})"

    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for place in places:
        line = lines[place["line"] - 1]
        line = re.sub(rf"sdk\.{old}\(([^,()]+), ([^()]+)\)", call, line)
        line = line.replace(f"sdk.{old}", f"sdk.{new}").replace("milliseconds", "seconds")
        lines[place["line"] - 1] = line
    path.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Rewrite one part, `code` or `pages`, by the list that the predecessor delivered."""
    claim = assignment.claim()
    task = claim["work"]
    (listed,) = assignment.outputs(claim["result_refs"][0])
    report = json.loads(assignment.git("cat-file", "blob", listed["blob"]))
    rewrite = rewrite_code if task["part"] == "code" else rewrite_page
    places = report[task["part"]]
    for path in sorted({place["path"] for place in places}):
        here = [place for place in places if place["path"] == path]
        rewrite(pathlib.Path(path), here, task["old_call"], task["new_call"])
        print(f"{path}: {len(here)} rewritten")
    assignment.deliver_patch()


if __name__ == "__main__":
    main()
