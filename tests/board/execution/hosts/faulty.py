"""Any host behind a bad line: a seeded plan loses, delays, doubles and reorders what passes.

It changes what the caller is told and when the host hears of it, never what the host does. Under a
calm sky it is the host itself, and passes the same contract.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast

from callboard.board.execution.host import (
    CancelAnswer,
    Host,
    LaunchAnswer,
    Log,
    Order,
    RuledOut,
    RunFacts,
    Sighting,
)
from callboard.board.protocol.policy import Profile
from callboard.errors import CallboardError

T = TypeVar("T")
Fault = Literal["request_lost", "answer_lost", "late", "doubled", "outdated", "busy"]
Faults = Mapping[str, tuple[Fault, ...]]
"""Which faults a call of that name may meet."""

UNREACHABLE, BUSY = "host_unreachable", "registry_busy"
ALL: Faults = {
    "resolve": ("request_lost", "answer_lost"),
    "launch": ("request_lost", "answer_lost", "late", "doubled"),
    "find": ("request_lost", "answer_lost", "outdated", "busy"),
    "inspect": ("request_lost", "answer_lost", "outdated", "busy"),
    "rule_out": ("request_lost", "answer_lost", "late", "doubled", "busy"),
    "cancel": ("request_lost", "answer_lost", "late", "doubled"),
    "logs": ("request_lost", "answer_lost"),
}
CALM: Faults = {}


def unreachable() -> CallboardError:
    """What a caller is told whose call went wrong: not whether the host heard of it."""
    return CallboardError(UNREACHABLE, "the host does not answer", "ask it again later")


@dataclass(slots=True)
class Weather:
    """What becomes of calls, for all who share the line.

    `one_in` calls that may meet a fault does. `late` are requests that are still on their way;
    `calls` what was sent, whether or not it arrived; `met` counts the faults by call. `misled` are
    the dispatches whose runs were last looked for with an old answer.
    """

    chance: random.Random
    faults: Faults
    one_in: int = 3
    late: list[Callable[[], object]] = field(default_factory=list)
    calls: list[tuple[str, Order]] = field(default_factory=list)
    met: Counter[tuple[str, Fault]] = field(default_factory=Counter)
    seen: dict[object, list[object]] = field(default_factory=dict)
    misled: set[str] = field(default_factory=set)

    def fault(self, call: str) -> Fault | None:
        """The fault that this call meets."""
        known = self.faults.get(call, ())
        if not known or self.chance.randrange(self.one_in):
            return None
        found = self.chance.choice(known)
        self.met[call, found] += 1
        return found

    def deliver(self) -> None:
        """Let one request that is late arrive, whichever."""
        if self.late:
            self.late.pop(self.chance.randrange(len(self.late)))()

    def clear(self) -> None:
        """No fault from now on; what is late arrives."""
        self.faults = CALM
        while self.late:
            self.deliver()


class FaultyHost:
    """A host behind that weather."""

    def __init__(self, host: Host, weather: Weather) -> None:
        self._host = host
        self._weather = weather

    def resolve(self, profile: Profile) -> str:
        return self._through("resolve", lambda: self._host.resolve(profile))

    def launch(self, order: Order) -> LaunchAnswer:
        self._weather.calls.append(("launch", order))
        return self._through("launch", lambda: self._host.launch(order))

    def find(self, order: Order) -> Sighting:
        key = ("find", order.dispatch_id)
        self._weather.misled.add(order.dispatch_id)
        return self._through(
            "find", lambda: self._sighted(order, self._seen(key, self._host.find(order))), key
        )

    def _sighted(self, order: Order, now: Sighting) -> Sighting:
        self._weather.misled.discard(order.dispatch_id)
        return now

    def inspect(self, order: Order, run_id: str) -> RunFacts:
        key = ("inspect", order.dispatch_id, run_id)
        return self._through(
            "inspect", lambda: self._seen(key, self._host.inspect(order, run_id)), key
        )

    def rule_out(self, order: Order) -> RuledOut:
        return self._through("rule_out", lambda: self._host.rule_out(order))

    def cancel(self, order: Order, run_id: str) -> CancelAnswer:
        return self._through("cancel", lambda: self._host.cancel(order, run_id))

    def logs(self, run_id: str, *, limit_bytes: int) -> tuple[Log, ...]:
        return self._through("logs", lambda: self._host.logs(run_id, limit_bytes=limit_bytes))

    def _seen(self, key: object, answer: T) -> T:
        self._weather.seen.setdefault(key, []).append(answer)
        return answer

    def _through(self, call: str, ask: Callable[[], T], key: object = None) -> T:
        """The answer that comes through, or `host_unreachable`."""
        weather = self._weather
        fault = weather.fault(call)
        if fault == "outdated" and (older := weather.seen.get(key)):
            # What was answered to the same question once, to whoever asked it.
            return cast(T, weather.chance.choice(older))
        if fault == "busy":
            raise CallboardError(BUSY, "the host is busy", "ask it again")
        if fault == "request_lost":
            raise unreachable()
        if fault == "late":
            weather.late.append(ask)
            raise unreachable()
        answer = ask()
        if fault == "doubled":
            answer = weather.chance.choice([answer, ask()])
        if fault == "answer_lost":
            raise unreachable()
        return answer
