"""From what a person types to the commit that is meant.

Full ids and names only: what an abbreviation means is not stable in a repository that grows.
"""

from __future__ import annotations

from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError

_PLACES = ("", "refs/", "refs/heads/", "refs/tags/", "refs/remotes/")
_SHOWN = 80


def commit_named(repository: Repository, text: str) -> str:
    """The commit of a full id, `HEAD`, a branch, a tag or a full ref name: `revision_unknown` else.

    A branch goes before a tag of the same name, and an annotated tag is not followed.
    """
    for found in _candidates(repository, text):
        try:
            repository.commit_info(found)
        except CallboardError as error:
            if error.code not in ("object_missing", "object_wrong_kind"):
                raise
            continue
        return found
    raise CallboardError(
        "revision_unknown",
        f"the repository has no commit {text[:_SHOWN]!r}",
        "name a full commit id, a branch or HEAD: git rev-parse NAME prints one",
        {"revision": text[:_SHOWN].encode("utf-8", "replace").decode("utf-8")},
    )


def _candidates(repository: Repository, text: str) -> list[str]:
    found: list[str] = []
    for place in _PLACES:
        name = place + text
        if name != "HEAD" and not name.startswith("refs/"):
            continue
        try:
            target = repository.read_ref(name)
        except CallboardError as error:
            if error.code != "ref_invalid":
                raise
            continue
        if target is not None:
            found.append(target)
    return [text, *found]
