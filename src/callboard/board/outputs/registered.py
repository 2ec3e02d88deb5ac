"""The verifiers that a project has registered by entry points; looked for where one is named.

Source: specification 1, §7.15; wire-v3 §9. A verifier can only withhold: what it does not find
wrong is still held against everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callboard.board.protocol.contract import Verification

if TYPE_CHECKING:
    # The worker's own side counts by the same bounds, and knows no repository.
    from callboard.board.storage.repository import Repository


def is_registered(verifier_id: str) -> bool:
    """Whether a verifier is installed here, just once."""
    # Imported only where a contract names one: nearly none does.
    from callboard.board.outputs import own_call
    from callboard.board.outputs.own import VERIFIERS

    return own_call.is_installed(VERIFIERS, verifier_id)


def judge(repository: Repository, asked: Verification, entry: dict[str, Any]) -> str | None:
    """What the verifier has against an output, as its descriptor has it; None for nothing.

    Raises `handler_failed`.
    """
    from callboard.board.outputs import own_call

    question = {
        "output": entry,
        "expected": asked.expected,
        "git_folder": str(repository.common_dir),
    }
    answer: str | None = own_call.ask(own_call.JUDGE, asked.verifier_id, question)
    return answer
