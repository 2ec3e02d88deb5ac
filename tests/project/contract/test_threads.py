"""One open project serves several threads, as a server has them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from callboard.errors import CallboardError
from tests.project.contract.stores import Opened


def test_threads_change_it_one_after_the_other(opened: Opened) -> None:
    before = opened.project.info().revision

    def work(number: int) -> int:
        for turn in range(10):
            opened.project.events.append("note.taken", {"thread": number, "turn": turn})
            opened.project.status()
        return number

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(work, range(8))) == list(range(8))
    assert opened.project.info().revision == before + 80
    bodies = [
        event.body for event in opened.project.events.list(type="note.taken", limit=500).events
    ]
    for number in range(8):
        assert [body["turn"] for body in bodies if body["thread"] == number] == list(range(10))


def test_threads_contend_for_one_claim(opened: Opened) -> None:
    sessions = [opened.project.sessions.start("A", f"a{number}").session.id for number in range(8)]

    def take(session: str) -> str:
        try:
            return opened.project.claims.acquire(session).claim.session
        except CallboardError as error:
            return error.code

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(take, sessions))
    assert found.count("claim_held") == 7
    (holder,) = set(found) - {"claim_held"}
    claim = opened.project.claims.show("A").claim
    assert claim is not None
    assert claim.session == holder
