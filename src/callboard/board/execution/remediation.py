"""Runs a remediation verifier and judges its answer.

Source: specification 1, §7.15. It runs what HEAD's commit holds, in a private clone at that commit,
with a run's environment and within its own time limit, and believes nothing but an exit status of 0
together with one well-formed answer that the verifier's file lets it give. It publishes nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from callboard import canonical, files
from callboard.board.execution import workspace
from callboard.board.execution.hosts.local.environment import run_environment
from callboard.board.execution.hosts.local.run_folder import RunFolder
from callboard.board.execution.inquiry import Inquiry
from callboard.board.execution.site import Site
from callboard.board.protocol.policy import Record
from callboard.board.protocol.scalars import Identity
from callboard.board.publishing.replacement import VERIFIED_BY, Remedy
from callboard.board.publishing.verifier import Disposition, Verifier
from callboard.errors import CallboardError
from callboard.git import Git
from callboard.processes.held import Command, Outcome, hold
from callboard.validate import parse, show

UNPROVEN = "remediation_unproven"
VARIABLE = "CALLBOARD_REMEDIATION"
FOLDER = "verifications"
MAX_ANSWER_BYTES = 64 * 1024
_LAST_WORDS = 2_000
_LAST_LINE = 200
# Shorter values are too common in ordinary text to be worth hiding, and too short to be secrets.
_LEAST_SECRET = 4


class Answer(Record, frozen=True, kw_only=True):
    """The one JSON object that a verifier writes. `receipt` is its own name for what it found."""

    disposition: Disposition
    receipt: Annotated[Identity, Meta(description="where the verifier's own proof is found")]


@dataclass(frozen=True, slots=True)
class Attestation:
    """A proof: what the verifier `name` of `commit` answered. `digest` is that of `proof.json` in
    `folder`, which binds the answer to the question."""

    name: str
    commit: str
    answer: Answer
    digest: str
    folder: Path

    @property
    def remedy(self) -> Remedy:
        """What goes onto the board."""
        receipt = f"{VERIFIED_BY}{self.name}@{self.commit}:sha256:{self.digest}"
        return Remedy(self.answer.disposition, receipt)

    def document(self) -> dict[str, object]:
        """What a person is shown of it; the verifier's own words stay in the folder."""
        return {
            "verifier": self.name,
            "revision": self.commit,
            "digest": self.digest,
            "folder": str(self.folder),
        }


@dataclass(frozen=True, slots=True)
class Attestor:
    """Asks the verifier `name`, as `commit` has it. `environment` is the outer one."""

    site: Site
    environment: Mapping[str, str]
    name: str
    verifier: Verifier
    commit: str

    def ask(self, question: Inquiry, wanted: Disposition | None = None) -> Attestation:
        """Run it to its end. With `wanted` it has to attest that very disposition.

        Raises `remediation_unproven` with the verifier's last words, or what kept it from being
        run: `workspace_failed`, `process_start_failed`, the codes of `Git.run`.
        """
        token = secrets.token_hex(16)
        folder = RunFolder(self.site.folders.state / FOLDER / token)
        asked = canonical.encode(question) + b"\n"
        try:
            outcome = self._run(folder, token, asked)
            answer = self._judged(folder, outcome, wanted)
        finally:
            self._tidy(folder)
        proof = canonical.encode(
            {
                "verifier": self.name,
                "commit": self.commit,
                "asked_sha256": canonical.sha256_hex(asked),
                "answer": answer,
            }
        )
        with workspace.disk_faults(folder.root):
            files.publish(folder.root / "proof.json", proof, private=True)
        digest = canonical.sha256_hex(proof)
        return Attestation(self.name, self.commit, answer, digest, folder.root)

    def _run(self, folder: RunFolder, token: str, asked: bytes) -> Outcome:
        path = self.environment.get("PATH", os.defpath)
        git = Git(path)
        place = folder.root / "asked.json"
        with workspace.disk_faults(folder.root):
            folder.make()
            files.publish(place, asked, private=True)
        workspace.create(git, self.site.repository.common_dir, self.commit, folder.work)
        command = Command(
            argv=self.verifier.command,
            env=run_environment(
                self.verifier.env,
                self.environment,
                {VARIABLE: str(place)},
                home=folder.home,
                temporary=folder.temporary,
            ),
            cwd=folder.work,
            stdout=folder.log("verifier", "stdout"),
            stderr=folder.log("verifier", "stderr"),
            timeout_s=self.verifier.timeout_s,
            log_limit_bytes=MAX_ANSWER_BYTES,
        )
        with hold(command, run_id=token) as held:
            return held.run()

    @staticmethod
    def _tidy(folder: RunFolder) -> None:
        """Keep what was asked and said, and nothing that the verifier could use its folders for."""
        folder.reclaim()
        for place in (folder.work, folder.home, folder.temporary, folder.bin, folder.scratch):
            # What cannot be removed is in nobody's way.
            with contextlib.suppress(CallboardError, OSError):
                workspace.remove_tree(place)

    # --- the answer ----------------------------------------------------------------------------

    def _judged(self, folder: RunFolder, outcome: Outcome, wanted: Disposition | None) -> Answer:
        words = self._last_words(folder)
        said = _how_it_ended(outcome, self.verifier)
        if said is not None:
            raise self._unproven(said, outcome, words, folder)
        if outcome.survivors:
            left = ", ".join(f"{one.pid} {one.command[:60]}" for one in outcome.survivors[:5])
            raise self._unproven(f"left processes behind: {left}", outcome, words, folder)
        try:
            answer = self._answer(folder, outcome)
        except CallboardError as error:
            said = f"gave no answer that can be used: {error.message}"
            raise self._unproven(said, outcome, words, folder) from error
        if answer.disposition not in self.verifier.dispositions:
            may = ", ".join(self.verifier.dispositions)
            said = f"attests {answer.disposition!r}, and its file lets it attest {may}"
            raise self._unproven(said, outcome, words, folder)
        if wanted is not None and answer.disposition != wanted:
            said = f"attests {answer.disposition!r}, not {wanted!r} as asked for"
            raise self._unproven(said, outcome, words, folder)
        return answer

    def _answer(self, folder: RunFolder, outcome: Outcome) -> Answer:
        if outcome.stdout.truncated:
            raise CallboardError(
                "resource_limit",
                f"it wrote {outcome.stdout.seen_bytes} bytes, at most {MAX_ANSWER_BYTES} are read",
            )
        data = _kept(folder.log("verifier", "stdout"), "the answer")
        # One value and nothing else: which of several would count, nobody could tell.
        value = canonical.decode(data.strip(), limit_bytes=MAX_ANSWER_BYTES)
        if not isinstance(value, dict):
            raise CallboardError("record_invalid", f"it is {show(value)}, not an object")
        return parse(Answer, value, what="the answer")

    def _last_words(self, folder: RunFolder) -> str:
        for stream in ("stderr", "stdout"):
            path = folder.log("verifier", stream)
            with contextlib.suppress(CallboardError, OSError):
                data = _kept(path, "what it said")
                text = self._redacted(data.decode("utf-8", "replace").strip())
                if text:
                    return text[-_LAST_WORDS:]
        return ""

    def _redacted(self, text: str) -> str:
        """Without the values of the variables that were handed on: they may be secrets."""
        return redacted(text, (self.environment.get(name, "") for name in self.verifier.env))

    def _unproven(
        self, said: str, outcome: Outcome, words: str, folder: RunFolder
    ) -> CallboardError:
        line = words.splitlines()[-1].strip()[-_LAST_LINE:] if words else ""
        return CallboardError(
            UNPROVEN,
            f"verifier {self.name!r} {self._redacted(said)}"
            + (f"; its last words: {line}" if line else ""),
            f"nothing was posted; what it was asked and said is in {str(folder.root)!r}. Where it "
            "cannot be proven, somebody has to mend things by hand and cancel what is blocked",
            {
                "verifier": self.name,
                "revision": self.commit,
                "ended": outcome.ended,
                "exit_code": outcome.exit_code,
                "signal": outcome.signal,
                "last_words": words,
                "folder": str(folder.root),
            },
        )


def _kept(path: Path, what: str) -> bytes:
    """A log of ours; a verifier that put something else in its place is not shown what that is."""
    if path.is_symlink():
        raise CallboardError("file_not_regular", f"{what} is a symbolic link now")
    return files.read_bounded(path, MAX_ANSWER_BYTES, what=what)


def redacted(text: str, secrets_: Iterable[str]) -> str:
    """`text` with every one of the values replaced, longest first."""
    for value in sorted(secrets_, key=len, reverse=True):
        if len(value) >= _LEAST_SECRET:
            text = text.replace(value, "***")
    return text


def _how_it_ended(outcome: Outcome, verifier: Verifier) -> str | None:
    """Words for an end that proves nothing; None for an exit with 0."""
    if outcome.ended == "exited":
        return None if outcome.exit_code == 0 else f"exited with {outcome.exit_code}"
    if outcome.ended == "signalled":
        return f"was ended by signal {outcome.signal}"
    if outcome.ended == "timed_out":
        return f"was stopped at its time limit, {verifier.timeout_s} s"
    if outcome.ended == "start_failed":
        program = show(verifier.command[0])
        return f"could not be started: {program}: {outcome.reason}"
    return f"was cut short: {outcome.ended}"
