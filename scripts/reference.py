"""Writes the reference pages that follow from the source: commands, codes, tools, a project,
the files of layers.

`--check` writes nothing and fails where a page is out of date. A code without a meaning in
`error_meanings`, or a meaning without its code, is an error.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click

from callboard.surfaces.cli.main import root
from callboard.surfaces.mcp import answers, arguments, handing_over, tools, wire
from scripts.error_meanings import COMPUTED, MEANINGS
from scripts.layers_reference import layers_page
from scripts.project_reference import project_page

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "callboard"
PAGES = ROOT / "docs" / "reference"
MADE = "<!-- Made by scripts/reference.py: change the source, then run `make docs`. -->\n"


# --- error codes ---------------------------------------------------------------------------------


def codes(folder: Path = SOURCE) -> dict[str, set[str]]:
    """Every code the program refuses with, and the packages that do."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))}
    makers = {"CallboardError": 0}
    for tree in trees.values():
        makers |= dict(_makers(tree))
    found: dict[str, set[str]] = {}
    for path, tree in trees.items():
        place = ".".join(path.relative_to(folder).with_suffix("").parts[:2])
        for code in _given(tree, makers):
            found.setdefault(code, set()).add(place)
    for code, place in COMPUTED.items():
        found.setdefault(code, set()).add(place)
    return found


def _makers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Functions that hand one of their own parameters on as a code, and which."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = [argument.arg for argument in function.args.args]
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or _name(call.func) != "CallboardError":
                continue
            code = call.args[0] if call.args else None
            if isinstance(code, ast.Name) and code.id in names:
                yield function.name, names.index(code.id)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _given(tree: ast.AST, makers: dict[str, int]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = makers.get(_name(node.func))
            if place is not None and len(node.args) > place:
                yield from _constants(node.args[place])
            for keyword in node.keywords:
                if keyword.arg == "code":
                    yield from _constants(keyword.value)
        elif isinstance(node, ast.FunctionDef):
            arguments = node.args
            named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            for argument, default in named:
                if argument.arg == "code" and default is not None:
                    yield from _constants(default)


def _constants(value: ast.expr) -> Iterator[str]:
    for node in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def errors_page() -> str:
    """docs/reference/errors.md."""
    found = codes()
    unexplained = sorted(found.keys() - MEANINGS.keys())
    unused = sorted(MEANINGS.keys() - found.keys())
    if unexplained or unused:
        raise SystemExit(
            f"MEANINGS in scripts/error_meanings.py: add {', '.join(unexplained) or 'nothing'}; "
            f"remove {', '.join(unused) or 'nothing'}"
        )
    rows = "".join(
        f"| `{code}` | {MEANINGS[code]} | {', '.join(sorted(found[code]))} |\n"
        for code in sorted(found)
    )
    return f"""{MADE}
# Error codes

A refusal has a stable code, a message that names what was found, and a hint that says what to do
next. With `--json` it is the one document on standard output:

```json
{{"error": {{"code": "work_unknown", "message": "…", "hint": "…", "details": {{}}}}}}
```

Decide on the code, never on the words. A refused write has changed nothing of a board or a project.
That holds for work files too: `source patch` puts its file back where the database then does not
commit. Where the file cannot be put back, as somebody else changed it in that moment, the message
says so and `details.file` names it; `source scan` shows it, and `source index` takes it up.
The exit status is 1, or 4 for `contention`, `busy`, `source_busy`, `registry_busy` and
`coordinator_busy`, after which the same command may simply be run again.
Three more codes come from the command line alone: `usage` (exit 2), `internal_fault` (exit 70), a
defect of Callboard's own, and `interrupted` (exit 130) after Ctrl-C, where what was asked for may
stand or not.

| code | meaning | where from |
|---|---|---|
{rows}"""


# --- the command line ----------------------------------------------------------------------------


def cli_page() -> str:
    """docs/reference/cli.md."""
    context = click.Context(root, info_name="callboard")
    parts = [
        f"""{MADE}
# The command line

`callboard VERB [OPTIONS]`. `--json`, `--repo`, `--branch`, `--remote` and `--offline` may stand
before the verb or after it. With `--json` standard output holds exactly one JSON document; progress
goes to standard error.

| exit | meaning |
|---|---|
| 0 | done; `run` ends so also where nodes are stuck |
| 1 | refused; the code is in the [table of codes](errors.md) |
| 2 | the command was misused |
| 3 | a normal answer that is no: nothing granted, ready or drained, faults found; it says why |
| 4 | others were faster until the deadline, or are at it; nothing was written, try again |
| 70 | a defect of Callboard's own |
| 130, 143 | ended by Ctrl-C or SIGTERM |
| 141 | the reader of the output went away |

`CALLBOARD_REPO`, `CALLBOARD_BRANCH` and `CALLBOARD_REMOTE` stand in for the options of that name,
`CALLBOARD_CONFIG_DIR` and `CALLBOARD_STATE_DIR` for the user's own folders; `NO_COLOR` turns
colours off.
"""
    ]
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        assert command is not None
        parts += _sections(command, f"callboard {name}")
    return "\n".join(parts)


def _sections(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
    yield f"## {path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from _sections(one, f"{path} {name}")


# --- the tools of agents -------------------------------------------------------------------------


def tools_page() -> str:
    """docs/reference/agent-tools.md."""
    roles = "".join(
        f"| `{tool.name}` | {tool.title.lower()} | "
        + " | ".join("yes" if role in tool.roles else "" for role in tools.EVERYBODY)
        + " |\n"
        for tool in tools.TOOLS
    )
    parts = [
        f"""{MADE}
# The tools of agents

`callboard mcp board` serves them over the Model Context Protocol, on standard input and output, to
one agent. [How to connect one](../how-to/agents-with-tools.md) is told elsewhere.

| tool | | {" | ".join(tools.EVERYBODY)} |
|---|---|{"---|" * len(tools.EVERYBODY)}
{roles}
Each answer is one JSON document, as text and as structured content. Its `provenance` says where it
is from: `activation_snapshot` is the board as it was when the agent was started, `staged_preview`
what the agent has asked for so far. A refusal is a tool error with a [code](errors.md),
`{{"error": {{code, message, hint, details}}}}`.

| bound | bytes |
|---|---|
| a request, one line | {wire.MAX_REQUEST_BYTES:,} |
| the document of an answer | {answers.MAX_ANSWER_BYTES:,} |
| an answer on the wire, both forms | {answers.MAX_LINE_BYTES:,} |

Lists have at most {arguments.MAX_LIMIT} entries and a `next_cursor`, an opaque text that walks the
one snapshot: whatever happens on the board meanwhile, no node comes twice and none is missed.
"""
    ]
    parts += [_tool_section(tool) for tool in tools.TOOLS]
    rows = "".join(
        f"| `{name}` | {kind.summary} | {', '.join(f'`{field}`' for field in kind.fields)} |\n"
        for name, kind in handing_over.OUTPUTS.items()
    )
    parts.append(
        f"""## Types of outputs

`{handing_over.OWN}` stands for any type of a project's own. Fields of another type are refused.

| type | what it is | fields |
|---|---|---|
{rows}"""
    )
    return "\n".join(parts)


def _tool_section(tool: tools.Tool) -> str:
    schema = arguments.schema_of(tool.arguments, has_claims=True)
    summary = tool.description.split("\n", 1)[0].removesuffix(
        " Types, and the fields that go with each:"
    )
    rows = "".join(
        f"| `{name}` | {_kind(field)} | {'yes' if name in schema['required'] else ''} "
        f"| {field.get('description', '')} |\n"
        for name, field in schema["properties"].items()
    )
    return f"""## {tool.name}

{summary}

| field | type | needed | |
|---|---|---|---|
{rows}"""


def _kind(field: dict[str, object]) -> str:
    words = field.get("enum")
    if isinstance(words, list):
        return ", ".join(f"`{word}`" for word in words)
    bounds = [field.get("minimum"), field.get("maximum")]
    return f"{field['type']}" + (f" {bounds[0]}..{bounds[1]}" if bounds[1] is not None else "")


# --- writing -------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    check = parser.parse_args(arguments).check
    stale = False
    pages: dict[str, Callable[[], str]] = {
        "cli.md": cli_page,
        "errors.md": errors_page,
        "agent-tools.md": tools_page,
        "project.md": partial(project_page, MADE),
        "layers.md": partial(layers_page, MADE),
    }
    for name, made in pages.items():
        text = made()
        page = PAGES / name
        before = page.read_text("utf-8") if page.is_file() else ""
        if before == text:
            continue
        if check:
            stale = True
            changes = difflib.unified_diff(
                before.splitlines(), text.splitlines(), str(page), "as the source has it", n=0
            )
            print("\n".join(list(changes)[:40]))
            print(f"{page.relative_to(ROOT)} is out of date: run `make docs`")
        else:
            PAGES.mkdir(parents=True, exist_ok=True)
            page.write_text(text, "utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
