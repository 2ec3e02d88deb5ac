"""Who acts on this machine: a stable number kept in the user's config folder.

Source: specification 1, §7.7; wire-v3 §2 (Decimal). It is made once and names provenance; it proves
nothing and is no secret, but the file is kept private all the same.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from callboard import canonical, files
from callboard.board.protocol.scalars import Decimal
from callboard.errors import CallboardError
from callboard.validate import parse

IDENTITY_FILE = "identity.json"
_BITS = 62
_MAX_BYTES = 4096


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the identity file."""

    principal: Decimal


def read_principal(config: Path) -> str | None:
    """The principal of this user, or None where `init` has not made one.

    Raises `identity_invalid` for a file that is not what `init` wrote, `file_unreadable` where
    nobody can tell whether there is one.
    """
    path = config / IDENTITY_FILE
    try:
        if not path.exists():
            return None
    except OSError as error:
        raise CallboardError(
            "file_unreadable",
            f"the identity file {str(path)!r} cannot be read: {error.strerror or error}",
            "see to the rights of its folder, or name another one in CALLBOARD_CONFIG_DIR",
        ) from error
    data = files.read_bounded(path, _MAX_BYTES, what="identity file")
    try:
        return parse(
            Identity, canonical.decode(data), what=str(path), code="identity_invalid"
        ).principal
    except CallboardError as error:
        raise CallboardError(
            "identity_invalid",
            f"the identity file {str(path)!r} is damaged: {error.message}",
            "restore it from a backup; a new identity would be another person to the board",
        ) from error


def make_principal(config: Path) -> tuple[str, bool]:
    """The user's principal, made now where there is none; tells whether it was made.

    Raises `storage_failed` where the file cannot be written, `file_not_regular` where a link that
    leads nowhere has its name.
    """
    known = read_principal(config)
    if known is not None:
        return known, False
    principal = str(secrets.randbits(_BITS) + 1)
    document = canonical.encode({"principal": principal}) + b"\n"
    path = config / IDENTITY_FILE
    try:
        config.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.publish(path, document, private=True, replace=False)
    except OSError as error:
        # Somebody else may have made it meanwhile.
        known = read_principal(config) if isinstance(error, FileExistsError) else None
        if known is not None:
            return known, False
        if path.is_symlink():
            raise CallboardError(
                "file_not_regular",
                f"the identity file {str(path)!r} is a symbolic link that leads nowhere",
                "restore the file it leads to, or remove the link",
            ) from error
        raise CallboardError(
            "storage_failed",
            f"the identity file {str(path)!r} cannot be written: {error.strerror or error}",
            "free space, or see to the rights of its folder; CALLBOARD_CONFIG_DIR names another",
            {"errno": error.errno},
        ) from error
    return principal, True
