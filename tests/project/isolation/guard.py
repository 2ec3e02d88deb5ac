"""What a guard is: something that holds a condition, what is left of it, and who then fails.

Where a guard is a check within a transaction, one change takes the check away, and another one
lets it look at what was there before the transaction began.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.project.patched import Change


@dataclass(frozen=True)
class Guard:
    """What is changed, and the tests of which each one must see it.

    `tests` are the names of functions, which are unique in the folder. One with a case in brackets
    must fail in that case; else any case will do. `says` stands in what each failure tells, where
    one could come of something else.
    """

    tests: tuple[str, ...]
    changes: tuple[Change, ...]
    says: str = ""


def guard(
    tests: str | tuple[str, ...], *changes: tuple[str, str] | Change, says: str = ""
) -> Guard:
    """A guard; a text that stands in one place of the wing is changed by naming both texts."""
    return Guard(
        (tests,) if isinstance(tests, str) else tests,
        tuple(one if isinstance(one, Change) else Change(*one) for one in changes),
        says,
    )


def preceded(text: str, *lines: str) -> Change:
    """The change that puts these lines before a text."""
    return Change(text, "".join(f"{line}\n" for line in lines) + text)


def followed(text: str, *lines: str) -> Change:
    """The change that puts these lines after the line that a text is."""
    return Change(f"{text}\n", f"{text}\n" + "".join(f"{line}\n" for line in lines))


FIRST = "        fingerprint = digest([order.operation, self.actor, order.intent])"
"""The line of a change that is the last one before its transaction."""


def early(what: str, by: str, *changes: tuple[str, str]) -> tuple[Change | tuple[str, str], ...]:
    """Changes that let an operation look at what was there before its transaction began.

    `what` is then a dictionary `EARLY` of claims or sessions, by their attribute `by`.
    """
    return (
        followed(
            FIRST,
            "        from callboard.project import queries, unit",
            f"        unit.EARLY = self.read(lambda scope: {{one.{by}: one for one in {what}}})",
        ),
        ("MAX_BODY_BYTES = ", "EARLY: dict = {}\nMAX_BODY_BYTES = "),
        *changes,
    )


# How changed code asks for it.
EARLIER = "__import__('callboard.project.unit', fromlist=['EARLY']).EARLY.get"
