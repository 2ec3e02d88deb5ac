"""Lists every use of an old SDK call, in code and in pages, and delivers the list."""

import ast
import json
import os
import pathlib

import assignment


def in_code(path: pathlib.Path, call: str) -> list[dict]:
    """The calls of `sdk.<call>` in a module: line and column of each."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if is_call(node, call):
            found.append({"path": str(path), "line": node.lineno, "column": node.col_offset})
    return found


def is_call(node: ast.AST, call: str) -> bool:
    """Whether a node of the syntax tree calls `sdk.<call>`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == call
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "sdk"
    )


def in_page(path: pathlib.Path, call: str) -> list[dict]:
    """The lines of a page that name `sdk.<call>`."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        {"path": str(path), "line": number}
        for number, line in enumerate(lines, start=1)
        if f"sdk.{call}" in line
    ]


def main() -> None:
    """Inspect the work tree, deliver `usages.json`."""
    call = assignment.claim()["work"]["old_call"]
    report = {"call": call, "code": [], "pages": []}
    for path in sorted(pathlib.Path("shop").glob("*.py")):
        report["code"] += in_code(path, call)
    for path in [pathlib.Path("README.md"), *sorted(pathlib.Path("docs").glob("*.md"))]:
        report["pages"] += in_page(path, call)
    if not report["code"]:
        raise SystemExit(f"nothing calls sdk.{call}")
    target = pathlib.Path(os.environ["TMPDIR"], "usages.json")
    target.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    assignment.deliver_file(str(target))
    print(f"{len(report['code'])} calls and {len(report['pages'])} lines of pages")


if __name__ == "__main__":
    main()
