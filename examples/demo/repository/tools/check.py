"""Holds one file against one rule; the exit status tells whether it keeps it."""

import ast
import pathlib
import re

import assignment


def docstrings(source: str, tree: ast.Module) -> list[str]:
    """The module and its public functions say what they are for."""
    named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    missing = [node.name for node in named if node.name[0] != "_" and not ast.get_docstring(node)]
    return missing if ast.get_docstring(tree) else ["the module", *missing]


def annotations(source: str, tree: ast.Module) -> list[str]:
    """Every function says what it takes and gives."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and (node.returns is None or any(one.annotation is None for one in node.args.args))
    ]


def imports(source: str, tree: ast.Module) -> list[str]:
    """What is imported is used."""
    names = [
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return [name for name in names if name not in used]


def lines(source: str, tree: ast.Module) -> list[str]:
    """Lines are short, without tabs and without spaces at their end."""
    return [
        f"line {number}"
        for number, line in enumerate(source.splitlines(), start=1)
        if len(line) > 100 or "\t" in line or line != line.rstrip()
    ]


def exceptions(source: str, tree: ast.Module) -> list[str]:
    """Nothing is caught without being named."""
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    return [f"line {node.lineno}" for node in handlers if node.type is None]


def evaluation(source: str, tree: ast.Module) -> list[str]:
    """No text is run as code."""
    return called(tree, {"eval", "exec", "compile", "__import__"})


def processes(source: str, tree: ast.Module) -> list[str]:
    """No process is started."""
    return [name for name in ("subprocess", "system", "pty") if re.search(rf"\b{name}\b", source)]


def secrets(source: str, tree: ast.Module) -> list[str]:
    """No password or token stands in the code."""
    pattern = r"""(?i)(password|secret|api_key|token)\w*\s*=\s*["'][^"']+["']"""
    return [match[0] for match in re.finditer(pattern, source)]


def guessing(source: str, tree: ast.Module) -> list[str]:
    """Nothing that must be hard to guess comes from `random`."""
    return [match[0] for match in re.finditer(r"\b(import random|random\.\w+)", source)]


def loading(source: str, tree: ast.Module) -> list[str]:
    """No object is built from bytes that came from outside."""
    return [match[0] for match in re.finditer(r"\b(pickle|marshal|shelve)\b", source)]


def called(tree: ast.Module, names: set[str]) -> list[str]:
    """Those of `names` that are called."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [func.id for func in calls if isinstance(func, ast.Name) and func.id in names]


RULES = {
    rule.__name__: rule
    for rule in (
        docstrings,
        annotations,
        imports,
        lines,
        exceptions,
        evaluation,
        processes,
        secrets,
        guessing,
        loading,
    )
}


def main() -> None:
    """Check the file and the rule that the task names."""
    task = assignment.claim()["work"]
    source = pathlib.Path(task["file"]).read_text(encoding="utf-8")
    rule = RULES[task["rule"]]
    faults = rule(source, ast.parse(source))
    if faults:
        raise SystemExit(f"{task['file']}: not so: {rule.__doc__} {', '.join(faults)}")
    print(f"{task['file']}: {rule.__doc__}")


if __name__ == "__main__":
    main()
