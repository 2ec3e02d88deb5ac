"""A process that appends numbered lines to a ledger; run with a repository, a name and a count.

Prints each line's number once it is accepted, so that its killer knows what must not be lost.
"""

from __future__ import annotations

import sys

from callboard.board.storage.git import GitStore
from callboard.board.storage.repository import Repository
from callboard.board.storage.store import Appended


def main() -> None:
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Repository.discover(path) as repository:
        store = GitStore(repository)
        for number in range(count):
            line = f'{{"by":"{name}","n":{number}}}\n'.encode()
            while not isinstance(store.append(store.read(), line, message=f"by {name}"), Appended):
                pass
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
