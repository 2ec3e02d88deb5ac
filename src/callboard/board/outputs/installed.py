"""Which handlers and verifiers of a project are installed here; loads none of them.

Source: specification 1, §7.14. The names of entry points and nothing more, so that the worker's own
side can count by the same bounds.
"""

from __future__ import annotations

from callboard.board.outputs.own import OUTPUTS, VERIFIERS


def is_installed(group: str, name: str) -> bool:
    """Whether exactly one installed package has an entry point of that name."""
    # Imported only where a project's own names turn up: it reads every installed package.
    from importlib.metadata import entry_points

    return len(entry_points(group=group, name=name)) == 1


def has_handler(output_type: str) -> bool:
    """Whether the handler of an own type is installed here, just once."""
    return is_installed(OUTPUTS, output_type)


def has_verifier(verifier_id: str) -> bool:
    """Whether a verifier is installed here, just once."""
    return is_installed(VERIFIERS, verifier_id)
