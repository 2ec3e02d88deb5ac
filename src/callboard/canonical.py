"""Canonical JSON: the one codec for everything that is hashed, compared or written to a ledger.

Source: specification 1, §7.6 "Current wire encoding"; wire-v3 §1. Values are plain JSON values
(None, bool, int, str, list, dict) or msgspec structs. Reading is fast where the bytes already are
canonical and falls back to a strict parser, which names the fault, where they are not.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any, NoReturn

import msgspec

from callboard.errors import CallboardError

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 64
MAX_ARRAY_MEMBERS = 16_384
MAX_LINE_BYTES = 8 * 1024 * 1024
MAX_PARSE_BYTES = 80 * 1024 * 1024

Json = Any
"""A JSON value: None, bool, int, str, list of Json, or dict of str to Json."""

CONTROL = re.compile(rb"\\(?:u00|[bfnrt])|\x7f")
"""A control character as it stands in canonical bytes."""

_encoder = msgspec.json.Encoder(order="sorted")


class _Slow(Exception):
    """The fast path met something it does not judge."""


def _no_float(_text: str) -> NoReturn:
    raise _Slow


_decoder = msgspec.json.Decoder(float_hook=_no_float)


def encode(value: Json) -> bytes:
    """The canonical bytes of a typed value, without a newline.

    Floats with the value of a safe whole number lose their point. Raises `CallboardError`
    `noncanonical_number` (fraction, -0.0, NaN, infinity, unsafe integer), `invalid_unicode`
    (lone surrogate), `invalid_json` (a type JSON does not have, a non-string key) or
    `resource_limit` (depth, array length).
    """
    return _encoder.encode(_checked(value, 0))


def encode_trusted(value: Json) -> bytes:
    """The canonical bytes of a value whose numbers, strings and depth were already checked."""
    return _encoder.encode(value)


def same_value(one: Json, other: Json) -> bool:
    """Whether two trusted values are one JSON value; Python alone takes 1 and true for equal."""
    return one == other and _encoder.encode(one) == _encoder.encode(other)


def sha256_hex(data: bytes) -> str:
    """Lower-case hex SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """`sha256hex(canonical(value))` (wire-v3 §4)."""
    return sha256_hex(encode(value))


def decode(data: bytes, *, limit_bytes: int = MAX_LINE_BYTES) -> Json:
    """Parse one JSON value of at most `limit_bytes`, in canonical layout or not.

    Raises `CallboardError` with a codec code: `invalid_unicode`, `duplicate_key`,
    `noncanonical_number`, `invalid_json` or `resource_limit`; `details.byte` is the offset.
    """
    check_size(data, limit_bytes)
    try:
        value = _decoder.decode(data)
        if _encoder.encode(value) == data and within_profile(value):
            return value
    except (_Slow, msgspec.DecodeError, RecursionError, ValueError):
        pass
    return decode_strict(data, limit_bytes=limit_bytes)


def check_size(data: bytes, limit_bytes: int) -> None:
    """Refuse more than `limit_bytes` before anything is parsed."""
    if len(data) > limit_bytes:
        raise CallboardError(
            "resource_limit",
            f"{len(data)} bytes of JSON, more than the {limit_bytes} allowed",
            "split the document or shorten it",
            {"bytes": len(data), "limit_bytes": limit_bytes},
        )


def within_profile(value: Json, depth: int = 0) -> bool:
    """Whether a decoded value without floats, itself at `depth`, keeps the profile's bounds.

    Checks nesting, array lengths and the range of integers; text is already known to be valid.
    """
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(within_profile(member, depth + 1) for member in value.values())
    if isinstance(value, list):
        if len(value) > MAX_ARRAY_MEMBERS:
            return False
        return all(within_profile(member, depth + 1) for member in value)
    if type(value) is int:
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    return True


def _checked(value: Json, depth: int) -> Json:
    """`value` with integral floats as integers, or the refusal of what has no canonical form."""
    if depth > MAX_DEPTH:
        raise _too_deep(None)
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return _checked_text(value)
    if kind is int:
        if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            return value
        # Python refuses to spell an integer of thousands of digits.
        few = value.bit_length() <= 256
        raise _number_refused(repr(value) if few else f"of {value.bit_length()} bits")
    if kind is float:
        return _checked_float(value)
    if isinstance(value, dict):
        return {_checked_key(key): _checked(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > MAX_ARRAY_MEMBERS:
            raise _too_long(len(value), None)
        return [_checked(item, depth + 1) for item in value]
    if isinstance(value, msgspec.Struct):
        return _checked(msgspec.to_builtins(value), depth)
    raise CallboardError(
        "invalid_json",
        f"a {kind.__name__} has no JSON form",
        "use objects, arrays, strings, integers, booleans and null",
    )


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise CallboardError("invalid_json", f"object key {key!r} is not a string", "quote the key")
    return _checked_text(key)


def _checked_text(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CallboardError(
            "invalid_unicode",
            f"text holds the lone surrogate U+{ord(text[error.start]):04X}",
            "send valid Unicode",
        ) from error
    return text


def _checked_float(value: float) -> int:
    negative_zero = value == 0 and math.copysign(1, value) < 0
    if not value.is_integer() or negative_zero or abs(value) > MAX_SAFE_INTEGER:
        raise _number_refused(repr(value))
    return int(value)


def _number_refused(text: str, byte: int | None = None) -> CallboardError:
    return CallboardError(
        "noncanonical_number",
        f"the number {text[:40]} is not a plain integer within ±{MAX_SAFE_INTEGER}",
        "write fractions and larger numbers as strings",
        {} if byte is None else {"byte": byte},
    )


def _too_deep(byte: int | None) -> CallboardError:
    return CallboardError(
        "resource_limit",
        f"nested deeper than {MAX_DEPTH} levels",
        "flatten the value",
        {"limit": MAX_DEPTH} | ({} if byte is None else {"byte": byte}),
    )


def _too_long(count: int, byte: int | None) -> CallboardError:
    return CallboardError(
        "resource_limit",
        f"an array of {count} or more members, more than {MAX_ARRAY_MEMBERS}",
        "split the array",
        {"limit": MAX_ARRAY_MEMBERS} | ({} if byte is None else {"byte": byte}),
    )


# --- the strict parser -----------------------------------------------------------------------

_WHITESPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")
_LITERALS: tuple[tuple[str, Json], ...] = (("true", True), ("false", False), ("null", None))


def decode_strict(data: bytes, *, limit_bytes: int = MAX_LINE_BYTES) -> Json:
    """Parse with every rule of the profile checked; the reference for `decode`'s answers."""
    check_size(data, limit_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CallboardError(
            "invalid_unicode",
            f"byte {error.start} is not valid UTF-8",
            "encode the document as UTF-8",
            {"byte": error.start},
        ) from error
    return _Parser(text).document()


class _Parser:
    """A recursive-descent parser over decoded text; depth is bounded, so recursion is too."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> Json:
        self._skip_whitespace()
        value = self._value(0)
        self._skip_whitespace()
        if self._at != len(self._text):
            raise self._invalid("something stands after the value")
        return value

    def _byte(self, at: int | None = None) -> int:
        return len(self._text[: self._at if at is None else at].encode("utf-8", "surrogatepass"))

    def _invalid(self, what: str) -> CallboardError:
        found = self._text[self._at : self._at + 12]
        return CallboardError(
            "invalid_json",
            f"{what} at byte {self._byte()}: {found!r}" if found else f"{what} at the end",
            "send one well-formed JSON value",
            {"byte": self._byte()},
        )

    def _skip_whitespace(self) -> None:
        match = _WHITESPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _value(self, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise _too_deep(self._byte())
        lead = self._text[self._at : self._at + 1]
        if lead == '"':
            return self._string()
        if lead in ("{", "["):
            return self._object(depth) if lead == "{" else self._array(depth)
        for word, value in _LITERALS:
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        return self._number()

    def _number(self) -> int:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            raise self._invalid("expected a value")
        token = match.group()
        plain = match.group(1) is None and match.group(2) is None
        if not plain or token == "-0" or len(token) > 17:
            raise _number_refused(token, self._byte())
        value = int(token)
        if abs(value) > MAX_SAFE_INTEGER:
            raise _number_refused(token, self._byte())
        self._at = match.end()
        return value

    def _array(self, depth: int) -> list[Json]:
        self._at += 1
        members: list[Json] = []
        self._skip_whitespace()
        if self._text.startswith("]", self._at):
            self._at += 1
            return members
        while True:
            self._skip_whitespace()
            members.append(self._value(depth + 1))
            if len(members) > MAX_ARRAY_MEMBERS:
                raise _too_long(len(members), self._byte())
            if self._closes("]"):
                return members

    def _object(self, depth: int) -> dict[str, Json]:
        self._at += 1
        members: dict[str, Json] = {}
        self._skip_whitespace()
        if self._text.startswith("}", self._at):
            self._at += 1
            return members
        while True:
            self._skip_whitespace()
            start = self._at
            if not self._text.startswith('"', start):
                raise self._invalid("expected an object key")
            key = self._string()
            if key in members:
                raise CallboardError(
                    "duplicate_key",
                    f"the key {key[:60]!r} stands twice in one object",
                    "keep each key once",
                    {"byte": self._byte(start), "key": key[:200]},
                )
            self._skip_whitespace()
            if not self._text.startswith(":", self._at):
                raise self._invalid("expected a colon")
            self._at += 1
            self._skip_whitespace()
            members[key] = self._value(depth + 1)
            if self._closes("}"):
                return members

    def _closes(self, closer: str) -> bool:
        self._skip_whitespace()
        found = self._text[self._at : self._at + 1]
        if found not in (closer, ","):
            raise self._invalid(f"expected a comma or {closer!r}")
        self._at += 1
        return found == closer

    def _string(self) -> str:
        self._at += 1
        parts: list[str] = []
        while True:
            match = _PLAIN_TEXT.match(self._text, self._at)
            assert match is not None
            parts.append(match.group())
            self._at = match.end()
            found = self._text[self._at : self._at + 1]
            if found == '"':
                self._at += 1
                return "".join(parts)
            if found != "\\":
                raise self._invalid("an unfinished string or a bare control character")
            parts.append(self._escape())

    def _escape(self) -> str:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in _ESCAPES:
            self._at += 2
            return _ESCAPES[letter]
        start = self._at
        unit = self._hex_unit()
        if 0xD800 <= unit <= 0xDBFF and self._text.startswith("\\u", self._at):
            low = self._hex_unit()
            if 0xDC00 <= low <= 0xDFFF:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
        if 0xD800 <= unit <= 0xDFFF:
            raise CallboardError(
                "invalid_unicode",
                f"the escape \\u{unit:04x} is a lone surrogate",
                "send valid Unicode",
                {"byte": self._byte(start)},
            )
        return chr(unit)

    def _hex_unit(self) -> int:
        match = _HEX4.match(self._text, self._at + 2)
        if match is None or not self._text.startswith("\\u", self._at):
            raise self._invalid("an unknown escape")
        self._at = match.end()
        return int(match.group(), 16)
