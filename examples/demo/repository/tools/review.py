"""Puts the patches of the predecessors together, tests the whole, delivers a review."""

import os
import pathlib
import subprocess
import sys

import assignment


def changed(patch: dict) -> list[str]:
    """The paths that a patch changes."""
    names = assignment.git("diff", "--name-only", patch["parent"], patch["commit"])
    return names.decode().splitlines()


def unpack(commit: str, folder: pathlib.Path, paths: list[str]) -> None:
    """Write the files of a commit, or some of them, into a folder."""
    for path in paths or files_of(commit):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(assignment.git("cat-file", "blob", f"{commit}:{path}"))


def files_of(commit: str) -> list[str]:
    """All files of a commit."""
    return assignment.git("ls-tree", "-r", "--name-only", commit).decode().splitlines()


def tests_pass(folder: pathlib.Path) -> bool:
    """Whether the tests pass where every use of an old call is an error."""
    command = [sys.executable, "-W", "error::DeprecationWarning", "-m", "unittest"]
    discover = ["discover", "-q", "-s", "tests", "-t", "."]
    return subprocess.run([*command, *discover], cwd=folder).returncode == 0


def uses(folder: pathlib.Path, call: str) -> list[str]:
    """The files that still name the old call, the SDK itself left out."""
    return [
        str(path.relative_to(folder))
        for path in sorted([*folder.glob("*.md"), *folder.glob("docs/*"), *folder.glob("shop/*")])
        if path.is_file() and path.name != "sdk.py" and f"sdk.{call}" in path.read_text()
    ]


def expect(truth: bool, what: str) -> str:
    """A line of the review, or the end of it."""
    if not truth:
        raise SystemExit(f"not so: {what}")
    return f"- {what}"


def main() -> None:
    """Review the patches for code and pages, deliver `review.md`."""
    claim = assignment.claim()
    call = claim["work"]["old_call"]
    (code,), (pages,) = (assignment.outputs(reference) for reference in claim["result_refs"])
    scratch = pathlib.Path(os.environ["TMPDIR"])
    before, after = scratch / "before", scratch / "after"
    unpack(code["parent"], before, [])
    unpack(code["commit"], after, [])
    unpack(pages["commit"], after, changed(pages))
    lines = [
        expect(code["parent"] == pages["parent"], "both patches start at the same commit"),
        expect(all(path.startswith("shop/") for path in changed(code)), "one changes code only"),
        expect(all(path.endswith(".md") for path in changed(pages)), "one changes pages only"),
        expect(bool(uses(before, call)), f"before, sdk.{call} was in use"),
        expect(not uses(after, call), f"after, nothing names sdk.{call}"),
        expect(not tests_pass(before), "before, the tests fail on the old call"),
        expect(tests_pass(after), "after, they pass"),
    ]
    review = scratch / "review.md"
    commits = [f"- code: {code['commit']}", f"- pages: {pages['commit']}"]
    review.write_text("\n".join(["# Review", "", *commits, *lines, ""]), encoding="utf-8")
    assignment.deliver_file(str(review))


if __name__ == "__main__":
    main()
