"""The runner: a process of its own that carries out one attempt, and outlives its coordinator.

It executes nothing unless everything is as it was frozen and `process.json` was published by it
and nobody else; it publishes the result last. Killed anywhere, it leaves what recovery goes by.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from callboard.errors import CallboardError
from callboard.layers import restoring, user_stop
from callboard.layers.around import Around, of_machine
from callboard.layers.attempts import (
    ASSIGNMENT,
    PROMPT,
    place_of,
    read_assignment,
    trace_of,
    verify,
)
from callboard.layers.records.attempt import AttemptProcess
from callboard.layers.records.base import encode
from callboard.layers.records.evaluation import GitSubject
from callboard.layers.records.state import Task
from callboard.layers.records.workflow import PLACEHOLDERS, Harness, WorkflowContract
from callboard.layers.results import (
    GIT_BEFORE,
    PROCESS,
    RESULT,
    STDERR,
    STDOUT,
    Ending,
    conclude,
    ending_of,
    subject_now,
)
from callboard.layers.runners import recorded, scratch
from callboard.layers.sealing import put_record
from callboard.layers.tree import read_contract, read_layer, read_state
from callboard.layers.tree import root as find_root
from callboard.processes.adoption import adopt_orphans
from callboard.processes.held import Command, HeldProcess, hold
from callboard.processes.identity import ProcessIdentity, current
from callboard.visible import visible

_WORD = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")


class Runner:
    """Carries out the attempt whose folder is `place`, once."""

    def __init__(self, around: Around, place: str) -> None:
        self._around = around
        self._disk = around.disk
        layer, _, self._attempt = place.rpartition("/attempts/")
        self._layer = read_layer(around.disk, layer)
        self._place = place_of(self._layer, self._attempt)
        self._trace = trace_of(self._layer, self._attempt)
        self._mark = f"run_{around.random(32)}"
        self._process: AttemptProcess | None = None
        self._held: HeldProcess | None = None
        self._asked_to_stop = False

    def request_stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Stop the harness as at its time limit; the result is published all the same."""
        self._asked_to_stop = True
        if self._held is not None:
            self._held.request_stop()

    def run(self) -> bool:
        """Carry the attempt out; False where that is somebody else's, or a stop came first.

        Raises `attempt_not_current` where the layer's state has no such task, and `layer_corrupt`.
        """
        for name in (PROCESS, RESULT):
            if self._disk.kind(f"{self._place}/{name}") is not None:
                return False
        task = self._task()
        harness = harness_of(read_contract(self._disk, self._layer), task)
        git_before, notes = subject_now(self._around)
        try:
            prompt = self._verified(task)
            self._check_wish()
            with self._holding(harness, prompt) as held:
                if self._asked_to_stop or not self._claim(held.identity):
                    return False
                self._begin_trace(git_before, prompt)
                ending = self._execute(held, harness)
                notes += _unstarted(harness, ending)
                notes += self._changed(task)
        except CallboardError as error:
            if error.code not in ("attempt_changed", "attempt_interrupted", "process_start_failed"):
                raise
            # The right to say so is the same as the right to execute: one runner has it.
            if self._asked_to_stop or not self._claim(current()):
                return False
            ending = Ending("deterministic", str(error.details.get("reason", error.code)))
            if error.code == "attempt_interrupted":
                ending = Ending("crash", "stopped")
            notes = [*notes, error.message[:1000]]
        self._conclude(ending, git_before, notes)
        return True

    def _task(self) -> Task:
        task = read_state(self._disk, self._layer).task
        if task is None or task.attempt_id != self._attempt:
            found = "no task" if task is None else f"the task {task.attempt_id}"
            raise CallboardError(
                "attempt_not_current",
                f"{self._attempt} is not to be run: its layer has {found}",
                "let `callboard layers run` start what is next",
                {"attempt_id": self._attempt},
            )
        return task

    def _verified(self, task: Task) -> bytes:
        """The prompt, once everything was found as it was frozen."""
        assignment = read_assignment(self._disk, self._layer, task)
        return verify(self._disk, self._layer, assignment).prompt

    def _changed(self, task: Task) -> list[str]:
        """What the harness did to the files that it was given; it has an effect no more."""
        try:
            self._verified(task)
        except CallboardError as error:
            return [f"while it ran, {error.message}"[:1000]]
        return []

    def _check_wish(self) -> None:
        """Refuse with `attempt_interrupted` to begin anything in a tree that is to end."""
        root = find_root(self._disk, self._layer.session.root_session_id)
        wish = user_stop.wish(self._around, root)
        if wish is not None:
            raise CallboardError(
                "attempt_interrupted",
                f"nothing of it was executed, as the tree was asked to end: {wish}",
                "run again, and the tree ends",
                {"attempt_id": self._attempt},
            )

    @contextlib.contextmanager
    def _holding(self, harness: Harness, prompt: bytes) -> Iterator[HeldProcess]:
        """The harness at its gate. Its logs get their names once the attempt is this runner's."""
        self._disk.make_folder(self._trace)
        logs = self._logs()
        # Of the verified bytes, not of a file that may be edited meanwhile.
        with scratch(prompt) as stdin:
            command = Command(
                argv=self._argv(harness),
                env=environment_of(harness, self._around.environment),
                cwd=self._disk.root,
                stdin=Path(f"/dev/fd/{stdin.fileno()}"),
                stdout=self._disk.path(logs[STDOUT]),
                stderr=self._disk.path(logs[STDERR]),
                timeout_s=harness.timeout_s,
                grace_s=harness.grace_s,
                log_limit_bytes=harness.log_limit_bytes,
            )
            try:
                with hold(command, run_id=self._mark) as held:
                    yield held
            finally:
                for log in logs.values():
                    self._disk.remove(log)

    def _logs(self) -> dict[str, str]:
        return {name: f"{self._trace}/.{name}.{self._mark}.tmp" for name in (STDOUT, STDERR)}

    def _argv(self, harness: Harness) -> tuple[str, ...]:
        values = {
            "prompt_file": str(self._disk.path(f"{self._place}/{PROMPT}")),
            "assignment": str(self._disk.path(f"{self._place}/{ASSIGNMENT}")),
        }
        return tuple(_WORD.sub(lambda found: values[found[1]], word) for word in harness.command)

    def _claim(self, leader: ProcessIdentity) -> bool:
        """Make the attempt this runner's; False where it is another's."""
        process = AttemptProcess(
            schema_version=1,
            attempt_id=self._attempt,
            run_mark=self._mark,
            runner=recorded(current()),
            leader=recorded(leader),
            started_at_ms=self._around.clock.now_ms(),
        )
        restoring.attempt_folder(self._disk, self._layer, self._attempt)
        self._process = process
        return self._disk.publish_new(f"{self._place}/{PROCESS}", encode(process))

    def _begin_trace(self, git_before: GitSubject | None, prompt: bytes) -> None:
        """Leave in the trace what recovery needs, should this runner die, and what was asked."""
        for name, log in self._logs().items():
            self._disk.move(log, f"{self._trace}/{name}")
        if git_before is not None:
            put_record(self._disk, f"{self._trace}/{GIT_BEFORE}", git_before)
        self._disk.publish(f"{self._trace}/{PROMPT}", prompt)

    def _execute(self, held: HeldProcess, harness: Harness) -> Ending:
        self._held = held
        if self._asked_to_stop:
            held.request_stop()
        try:
            return ending_of(held.run(), harness)
        finally:
            self._held = None

    def _conclude(self, ending: Ending, git_before: GitSubject | None, notes: list[str]) -> None:
        conclude(
            self._around,
            self._layer,
            self._attempt,
            ending,
            process=self._process,
            git_before=git_before,
            notes=notes,
        )


def harness_of(contract: WorkflowContract, task: Task) -> Harness:
    """What carries out the role of the task."""
    for role in contract.roles:
        if role.name == task.role:
            return role.config.harness
    raise CallboardError(
        "layer_corrupt",
        f"the state's task is of the role {task.role}, which the layer's contract does not have",
        "run `callboard layers check` for all that is wrong; restore the file from a backup",
        {"file": "state.json", "what": f"no role {task.role}"},
    )


def _unstarted(harness: Harness, ending: Ending) -> list[str]:
    """Where to look when a command could not be started."""
    if ending.exit_code is not None or ending.signal is not None or ending.detail is None:
        return []
    if not ending.detail.isupper():
        return []
    program = visible(harness.command[0])
    what = f"{program!r} cannot be started ({ending.detail}): put harness.command of the role's"
    return [f"{what} config.yaml right, and begin another tree; this one keeps what it froze"]


def environment_of(harness: Harness, surroundings: Mapping[str, str]) -> dict[str, str]:
    """What a harness gets to know of the user's environment: what it lists, and the search path."""
    allowed = {name: surroundings[name] for name in harness.environment if name in surroundings}
    return {"PATH": surroundings.get("PATH", os.defpath), **allowed}


def main(arguments: Sequence[str] | None = None, around: Around | None = None) -> int:
    """The entry point of a runner: `<repository> <place of the attempt>`.

    Exit 0 once the result is published or the attempt proved to be another runner's.
    """
    repository, place = sys.argv[1:] if arguments is None else arguments
    surroundings = around or of_machine(Path(repository), dict(os.environ))
    # How commands end is lost where it is ignored, as it may be for all that a parent starts.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    adopt_orphans()
    try:
        runner = Runner(surroundings, place)
        signal.signal(signal.SIGTERM, runner.request_stop)
        signal.signal(signal.SIGINT, runner.request_stop)
        runner.run()
    except CallboardError as error:
        with contextlib.suppress(OSError):
            os.write(sys.stderr.fileno(), f"{error}\n".encode(errors="backslashreplace"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
