"""How a run's commands ended, put together one command after the other.

A value for the supervisor; it runs nothing and records nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callboard.processes.held import Outcome

SUCCESS = "success"
FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the run's commands ended, as registry and report keep it.

    `trouble` is one line on what kept them from going on; `error` the host's refusal behind it,
    where there was one.
    """

    conclusion: str
    exit_code: int | None = None
    signal: int | None = None
    survivors: tuple[Mapping[str, object], ...] = ()
    commands: tuple[dict[str, object], ...] = ()
    trouble: str | None = None
    error: Mapping[str, object] | None = None

    def after(self, name: str, program: str, outcome: Outcome, *, began_ms: int) -> Ending:
        """The ending once one more command is over: success, failure, or how it was cut short.

        `began_ms` is when it was let go, in Unix ms.
        """
        if outcome.ended == "exited":
            conclusion = SUCCESS if outcome.exit_code == 0 else FAILURE
        else:
            conclusion = outcome.ended
        if name == "setup" and conclusion != SUCCESS:
            conclusion = f"setup_{conclusion}"
        # What outlived an earlier command is still the run's, even if the later one missed it.
        survivors = list(self.survivors)
        survivors += [one for it in outcome.survivors if (one := it.document()) not in survivors]
        return Ending(
            conclusion,
            outcome.exit_code,
            outcome.signal,
            tuple(survivors),
            (
                *self.commands,
                {
                    "command": name,
                    "program": program,
                    "began_ms": began_ms,
                    **outcome.document(),
                },
            ),
        )
