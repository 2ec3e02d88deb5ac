"""Text from elsewhere, made plainly visible.

Whatever shows submitted text passes it through here first, so that nothing in it moves a cursor,
turns reading order round or hides. It knows nothing of terminals, pages or boards.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Drawn as nothing or as a gap, although their category is that of letters, marks and symbols: the
# ignorable code points of Unicode, and the two that are blank by design.
_BLANK = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x1D159),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """`text` with everything that is not plainly seen written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_seen(char) else escaped(char) for char in text)


def _is_seen(char: str) -> bool:
    if char == " ":
        return True
    return char not in _BLANK and unicodedata.category(char) not in _UNSEEN


def escaped(char: str) -> str:
    """The escape that stands for one character."""
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
