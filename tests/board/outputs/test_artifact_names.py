"""Artifact names: what is one, and that a ref's form says exactly which."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callboard.board.outputs.artifact_names import (
    check_name,
    collision_key,
    decode_name,
    encode_name,
)
from callboard.errors import CallboardError
from tests.board.outputs import scene

names = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="/\\"),
    min_size=1,
    max_size=40,
).filter(
    lambda name: name not in (".", "..") and not name.startswith("-") and len(name.encode()) <= 128
)


@given(names)
@example("a.lock")
@example(".lock")
@example("..lock")
@example("a..b")
@example("a.")
@example(".a")
@example("%41")
@example("=abc")
@example("@{")
@example("é" * 64)
@example("x" * 128)
def test_a_name_comes_back_from_its_ref(name: str) -> None:
    check_name(name)
    text = encode_name(name)
    assert decode_name(text) == name
    assert len(text) <= 250
    assert text.isascii()


@given(names, names)
def test_different_names_have_different_refs(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


def test_an_ordinary_name_stays_readable() -> None:
    assert encode_name("Report-2.tar.gz") == "Report-2.tar.gz"


def test_git_accepts_every_form(tmp_path: Path) -> None:
    folder = scene.make_repository(tmp_path / "user")
    blob = scene.git(folder, "hash-object", "-w", "README")
    hard = ["a.lock", "a..b", ".a", "a.", "a b", "a~^:?*[b", "@{x", "@", "é" * 64, "x" * 128, "ß"]
    for name in hard:
        scene.git(folder, "update-ref", f"refs/callboard/artifacts/c/{encode_name(name)}", blob)
    listed = scene.git(folder, "for-each-ref", "--format=%(refname)", "refs/callboard")
    found = {decode_name(line.rsplit("/", 1)[1]) for line in listed.splitlines()}
    assert found == set(hard)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "-rf", "a/b", "../x", "a\\b", "a\nb", "a\0b", "\x7f", "x" * 129, "é" * 65,
        "\ud800", "a\u2028b", "\x85",
    ],
)  # fmt: skip
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(CallboardError) as refused:
        check_name(name)
    assert refused.value.code == "artifact_name_invalid"
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("text", ["%4", "%41", "%zz", "a b", "=", "=a", "=abcd", "%ff", "a/b", ""])
def test_what_was_never_written_is_not_read(text: str) -> None:
    with pytest.raises(CallboardError, match="artifact_name_invalid"):
        decode_name(text)


@pytest.mark.parametrize(
    ("one", "other"), [("Foo", "foo"), ("é", "e\u0301"), ("straße", "STRASSE"), ("ﬁ", "fi")]
)
def test_names_a_file_system_may_confuse(one: str, other: str) -> None:
    assert collision_key(one) == collision_key(other)
