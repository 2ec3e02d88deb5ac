"""All guards of the twenty conditions, by their names.

Taken one at a time out of a copy of the package (`tests.project.patched`). Each test of the folder
is named by one of them at least; whatever nothing makes fail shows nothing.
"""

from __future__ import annotations

from tests.project.isolation.guard import Guard
from tests.project.isolation.guards_of_branches import BRANCHES
from tests.project.isolation.guards_of_claims import CLAIMS
from tests.project.isolation.guards_of_history import HISTORY

GUARDS: dict[str, Guard] = HISTORY | CLAIMS | BRANCHES
