"""The one exception that crosses a package border.

A refusal tells its stable code, what was found and what to do next. Codes are listed in
docs/reference/errors.md; code outside this package decides on `code`, never on words.
"""

from __future__ import annotations

from collections.abc import Mapping


class CallboardError(Exception):
    """A refusal: `code` is stable, `message` names the found value, `hint` the next step.

    `details` holds JSON-ready facts (ids, counts, limits, JSON pointers). Nothing secret goes
    into any of the four.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details: dict[str, object] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")

    def document(self) -> dict[str, object]:
        """The JSON form every surface shows: `{code, message, hint, details}`."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
        }
