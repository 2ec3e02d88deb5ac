"""The names of artifacts, and how a name stands in a Git ref.

A name is one plain file name, so that whoever writes artifacts to disk by name stays in the folder
that was chosen. The form in a ref can be read back to exactly one name, and fits every file system.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata

from callboard.errors import CallboardError
from callboard.regular import shown_name

MAX_NAME_BYTES = 128
# A loose ref is a file, its lock one with `.lock` behind; names end at 255 bytes.
_MAX_PLAIN = 200
_BASE32_MARK = "="
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_ESCAPE = re.compile(r"%([0-9a-f]{2})")


def check_name(name: str) -> None:
    """Refuse with `artifact_name_invalid` what is not one plain file name of 1..128 bytes."""
    wrong = _fault(name)
    if wrong:
        raise CallboardError(
            "artifact_name_invalid",
            f"the artifact name {shown_name(name)!r} {wrong}",
            "use a plain file name of 1 to 128 bytes, for example --name report.md",
        )


def collision_key(name: str) -> str:
    """Equal for names that some file system or reader would take for the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def encode_name(name: str) -> str:
    """The name as one component of a ref; different for different names."""
    raw = name.encode("utf-8")
    last = len(raw) - 1
    lock = len(raw) - 5 if raw.endswith(b".lock") else -1
    text = "".join(
        chr(byte)
        if byte in _PLAIN and not (byte == 0x2E and (at in (0, last, lock) or raw[at + 1] == 0x2E))
        else f"%{byte:02x}"
        for at, byte in enumerate(raw)
    )
    if len(text) <= _MAX_PLAIN:
        return text
    return _BASE32_MARK + base64.b32encode(raw).decode("ascii").rstrip("=").lower()


def decode_name(text: str) -> str:
    """The name that `encode_name` wrote as `text`; `artifact_name_invalid` for anything else."""
    try:
        name = _decoded(text)
        if encode_name(name) == text and not _fault(name):
            return name
    except (UnicodeError, binascii.Error):
        pass
    raise CallboardError(
        "artifact_name_invalid",
        f"{shown_name(text)!r} is not an artifact's name in a ref",
        "leave refs/callboard/ to Callboard",
    )


def _decoded(text: str) -> str:
    if text.startswith(_BASE32_MARK):
        body = text[1:].upper()
        return base64.b32decode(body + "=" * (-len(body) % 8)).decode("utf-8")
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return raw.encode("latin-1").decode("utf-8")


def _fault(name: str) -> str:
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if not 1 <= size <= MAX_NAME_BYTES:
        return f"has {size} bytes"
    if any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in name):
        return "holds a control character"
    if "/" in name or "\\" in name:
        return "holds a path separator"
    if name in (".", ".."):
        return "names a folder"
    return "starts with '-'" if name.startswith("-") else ""
