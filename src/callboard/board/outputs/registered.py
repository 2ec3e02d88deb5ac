"""Asking the verifiers that a project has registered by entry points.

Source: specification 1, §7.15; wire-v3 §9. A verifier can only withhold: what it does not find
wrong is still held against everything else.
"""

from __future__ import annotations

from typing import Any

from callboard.board.outputs import own_call
from callboard.board.protocol.contract import Verification
from callboard.board.storage.repository import Repository


def judge(repository: Repository, asked: Verification, entry: dict[str, Any]) -> str | None:
    """What the verifier has against an output, as its descriptor has it; None for nothing.

    Raises `handler_failed`.
    """
    question = {
        "output": entry,
        "expected": asked.expected,
        "git_folder": str(repository.common_dir),
    }
    answer: str | None = own_call.ask(own_call.JUDGE, asked.verifier_id, question)
    return answer
