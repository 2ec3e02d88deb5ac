"""What one commit of a repository proposes: its settings, its worker recipes, their policy.

Source: specification 1, §§7.1, 7.9; wire-v3 §10. Only a commit counts, never the work tree, and
nothing is installed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from callboard.board.protocol.policy import PolicyDocument
from callboard.board.publishing.bootstrap import propose_policy
from callboard.board.publishing.config import (
    CONFIG_PATH,
    MAX_CONFIG_BYTES,
    BoardSettings,
    Settings,
    read_board_settings,
    read_settings,
)
from callboard.board.publishing.plan import Plan
from callboard.board.publishing.recipe import (
    FOLDER,
    MAX_RECIPE_BYTES,
    Recipe,
    parse_recipe,
    read_recipes,
    recipe_name,
)
from callboard.board.publishing.verifier import FOLDER as VERIFIERS
from callboard.board.publishing.verifier import (
    MAX_VERIFIER_BYTES,
    Verifier,
    parse_verifier,
    read_verifiers,
    verifier_name,
    verifier_path,
)
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError


class Proposal:
    """The commit `revision` of a repository, as a proposal; each file is read once."""

    def __init__(self, repository: Repository, revision: str) -> None:
        self._repository = repository
        self.revision = revision

    @cached_property
    def board(self) -> BoardSettings:
        """Where the board lives; raises `config_invalid`."""
        return read_board_settings(self._config)

    @cached_property
    def settings(self) -> Settings:
        """The whole settings; raises `config_invalid`."""
        return read_settings(self._config)

    @cached_property
    def _config(self) -> bytes | None:
        return self._repository.read_file(self.revision, CONFIG_PATH, MAX_CONFIG_BYTES)

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """The worker recipes by name.

        Raises `recipe_invalid` with the faults of every faulty one, `config_invalid` for too many.
        """
        return read_recipes(
            self._recipe_paths,
            lambda path: self._repository.read_file(self.revision, path, MAX_RECIPE_BYTES),
        )

    @cached_property
    def _recipe_paths(self) -> tuple[str, ...]:
        return self._repository.list_files(self.revision, FOLDER.rstrip("/"))

    def recipe_at(self, path: str) -> Recipe | None:
        """The one recipe at `path`, whatever is wrong with others; None where there is none.

        Raises `recipe_invalid`, `resource_limit` or `file_not_regular`.
        """
        name = recipe_name(path)
        data = self._repository.read_file(self.revision, path, MAX_RECIPE_BYTES)
        return None if name is None or data is None else parse_recipe(data, name=name)

    def policy(self, repository: str) -> PolicyDocument:
        """The policy this commit would install for the repository of that name.

        One faulty recipe refuses it: the board would be without that worker for good, and another
        could take its place as the default.
        """
        queue = self.settings.work_queue
        return propose_policy(queue, self.recipes, repository=repository, revision=self.revision)

    def newer_worker(self, plan: Plan, policy: PolicyDocument) -> str | None:
        """A worker that `plan` names, this commit has and the installed `policy` does not."""
        known = {name for pool in policy.pools.values() for name in pool.profiles}
        named = [plan.defaults.profile, *(node.profile for node in plan.nodes)]
        asked = {one for one in named if isinstance(one, str)}
        committed = {recipe_name(path) for path in self._recipe_paths}
        return min((asked - known) & committed, default=None)

    def verifiers(self) -> Mapping[str, Verifier | CallboardError]:
        """The remediation verifiers by name, a faulty one as its refusal; see `read_verifiers`."""
        return read_verifiers(
            self._verifier_paths,
            lambda path: self._repository.read_file(self.revision, path, MAX_VERIFIER_BYTES),
        )

    def verifier_names(self) -> list[str]:
        """The names of the committed verifiers, faulty ones too."""
        return sorted(name for path in self._verifier_paths if (name := verifier_name(path)))

    def verifier(self, name: str) -> Verifier:
        """The one verifier of that name, whatever is wrong with others.

        Raises `remediation_verifier_unknown`, `verifier_invalid`, `resource_limit` or
        `file_not_regular`.
        """
        path = verifier_path(name)
        data = self._repository.read_file(self.revision, path, MAX_VERIFIER_BYTES)
        if data is None:
            raise self._unregistered(name, path)
        return parse_verifier(data, name=name)

    def _unregistered(self, name: str, path: str) -> CallboardError:
        registered = self.verifier_names()
        known = "it has " + ", ".join(registered[:20]) if registered else "it has none"
        return CallboardError(
            "remediation_verifier_unknown",
            f"HEAD's commit {self.revision[:12]} has no remediation verifier {name!r}; {known}",
            f"a verifier is registered by its commit: git add {path} && git commit",
            {"verifier": name, "revision": self.revision, "registered": registered},
        )

    @cached_property
    def _verifier_paths(self) -> tuple[str, ...]:
        return self._repository.list_files(self.revision, VERIFIERS.rstrip("/"))

    def without_effect(self) -> list[dict[str, str]]:
        """Settings that are valid and change nothing on this host: `{setting, why}`."""
        if self.settings.work_queue.issues is False:
            return []
        return [
            {
                "setting": "work_queue.issues",
                "why": "mirror issues need a host that has issues; this one is the local machine",
            }
        ]
