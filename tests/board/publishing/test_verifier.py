"""Remediation verifiers: what their files may say, and how faults are told."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.board.publishing.verifier import (
    Verifier,
    parse_verifier,
    read_verifiers,
    refuse_faulty,
    verifier_name,
    verifier_path,
)
from callboard.errors import CallboardError

LEAST = b'command = ["true"]\ndispositions = ["inspection"]\n'


def faults(text: str) -> list[str]:
    with pytest.raises(CallboardError) as caught:
        parse_verifier(text.encode(), name="x")
    assert caught.value.code == "verifier_invalid"
    found: Any = caught.value.details["faults"]
    return [fault["pointer"] for fault in found]


def test_a_command_and_what_it_may_attest_are_enough() -> None:
    assert parse_verifier(LEAST, name="x") == Verifier(("true",), ("inspection",), 300, ())


def test_every_field_is_read_and_put_in_order() -> None:
    text = (
        b'command = ["sh", "-c", "x"]\ntimeout_s = 7\nenv = ["B", "A"]\n'
        b'dispositions = ["inspection", "compensated", "idempotent"]\n'
    )
    found = parse_verifier(text, name="x")
    assert found == Verifier(
        ("sh", "-c", "x"), ("idempotent", "compensated", "inspection"), 7, ("A", "B")
    )


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        ("", ["/command", "/dispositions"]),
        ('command = "true"\ndispositions = ["inspection"]', ["/command"]),
        ('command = ["true"]\ndispositions = []', ["/dispositions"]),
        ('command = ["true"]\ndispositions = "idempotent"', ["/dispositions"]),
        ('command = ["true"]\ndispositions = ["safe"]', ["/dispositions/0"]),
        ('command = ["true"]\ndispositions = ["inspection", "inspection"]', ["/dispositions/1"]),
        ('command = ["true"]\ndispositions = ["inspection"]\ntimeout_s = 3601', ["/timeout_s"]),
        ('command = ["true"]\ndispositions = ["inspection"]\ntimeout_s = true', ["/timeout_s"]),
        ('command = ["true"]\ndispositions = ["inspection"]\nenv = ["GITHUB_TOKEN"]', ["/env/0"]),
        ('command = ["true"]\ndispositions = ["inspection"]\nenv = ["GIT_DIR"]', ["/env/0"]),
        ('command = ["true"]\ndispositions = ["inspection"]\nmax_claims = 1', ["/max_claims"]),
        ("command = [", [""]),
    ],
)
def test_each_fault_has_its_place(text: str, pointers: list[str]) -> None:
    assert faults(text) == pointers


def test_the_size_is_bounded_before_anything_is_parsed() -> None:
    with pytest.raises(CallboardError, match="65537 bytes"):
        parse_verifier(b"#" * 65_537, name="x")


@pytest.mark.parametrize("name", ["", ".x", "a/b", "../x", "a..b", "x" * 65, "ä", "a b", "a\n"])
def test_names_that_could_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(CallboardError) as caught:
        verifier_path(name)
    assert caught.value.code == "remediation_verifier_unknown"
    assert verifier_name(f".callboard/verifiers/{name}.toml") is None


def test_names_and_paths_go_both_ways() -> None:
    assert verifier_path("a-1.b") == ".callboard/verifiers/a-1.b.toml"
    assert verifier_name(verifier_path("a-1.b")) == "a-1.b"
    assert verifier_name(".callboard/workers/a.toml") is None


def test_a_faulty_file_takes_no_other_with_it() -> None:
    files = {verifier_path("good"): LEAST, verifier_path("bad"): b"command = 1"}
    found = read_verifiers([*files, ".callboard/verifiers/README"], files.get)
    assert isinstance(found["good"], Verifier)
    assert isinstance(found["bad"], CallboardError)
    with pytest.raises(CallboardError, match=r"verifiers/bad\.toml") as caught:
        refuse_faulty(found)
    assert caught.value.code == "verifier_invalid"


def test_of_several_faulty_files_each_is_named() -> None:
    files = {verifier_path(name): b"command = 1" for name in ("a", "b")}
    with pytest.raises(CallboardError, match="2 verifiers are faulty, among them 'a', 'b'"):
        refuse_faulty(read_verifiers(files, files.get))


def test_their_number_is_bounded_before_any_is_read() -> None:
    paths = [verifier_path(f"v{number}") for number in range(257)]
    with pytest.raises(CallboardError, match="257 verifiers") as caught:
        read_verifiers(paths, lambda _path: pytest.fail("was read"))
    assert caught.value.code == "config_invalid"
