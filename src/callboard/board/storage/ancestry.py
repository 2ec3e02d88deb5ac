"""Whether one commit lies behind another, by walking its parents.

Reads commits only, and at most a bounded number of them: a history too long to tell counts as
another line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MAX_COMMITS = 10_000

Parents = Callable[[str], tuple[str, ...]]


def descends(parents: Parents, later: str, earlier: str, *, limit: int = MAX_COMMITS) -> bool:
    """Whether `earlier` is `later` itself or one of its ancestors.

    `parents` answers those of a commit, and what it raises is raised. Nearest commits are looked
    at first, so that a short way costs little; beyond `limit` commits the answer is no.
    """
    seen = {later}
    waiting = deque([later])
    while waiting:
        commit = waiting.popleft()
        if commit == earlier:
            return True
        for parent in parents(commit):
            if parent not in seen:
                if len(seen) >= limit:
                    return False
                seen.add(parent)
                waiting.append(parent)
    return False
