"""The refs of a Claim: apart from every other Claim's, also where a volume does not see case."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from callboard.board.outputs.descriptor import artifact_ref, prepared_ref
from callboard.board.protocol import identities
from callboard.board.storage.refs import check_name
from callboard.board.storage.repository import Repository
from callboard.canonical import sha256_hex

OURS = identities.claim_id("request", 1)
STRANGE = [
    "c_ab", "C_AB", "c_AB", "c_Ab", "claim", "Claim", "CLAIM", "straße", "STRASSE", "é", "e\u0301",
    "a.lock", "a..b", ".a", "a b", "a/b", "a", "@{", "-x", "x" * 256, "X" * 256,
    "sha256-" + sha256_hex(b"Claim"), "SHA256-" + sha256_hex(b"Claim"),
]  # fmt: skip


def test_our_own_claims_stand_by_their_ids() -> None:
    assert prepared_ref(OURS) == f"refs/callboard/prepared/{OURS}"
    assert artifact_ref(OURS, "out.txt") == f"refs/callboard/artifacts/{OURS}/out.txt"


def test_no_two_claims_share_a_ref_whatever_their_ids() -> None:
    for make in (prepared_ref, lambda claim: artifact_ref(claim, "out")):
        found = [make(claim).casefold() for claim in (OURS, *STRANGE)]
        assert len(set(found)) == len(found)
        for name in map(make, STRANGE):
            check_name(name)


def test_they_resolve_after_packing_and_in_a_clone(tmp_path: Path) -> None:
    folder, copy = tmp_path / "hub.git", tmp_path / "copy.git"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    with Repository.discover(folder) as repository:
        blobs = {claim: repository.write_blob(claim.encode()) for claim in STRANGE[:4]}
        for claim, blob in blobs.items():
            assert repository.set_ref(prepared_ref(claim), None, blob)
            assert repository.set_ref(artifact_ref(claim, "out"), None, blob)
    subprocess.run(["git", "pack-refs", "--all"], cwd=folder, check=True)
    subprocess.run(["git", "clone", "-q", "--mirror", str(folder), str(copy)], check=True)
    for place in (folder, copy):
        with Repository.discover(place) as repository:
            for claim, blob in blobs.items():
                assert repository.read_ref(prepared_ref(claim)) == blob
                assert repository.read_ref(artifact_ref(claim, "out")) == blob


@pytest.mark.parametrize(
    ("one", "other"), list(itertools.combinations(["c_0a", "c_0A", "C_0a"], 2))
)
def test_ids_that_differ_in_case_alone_have_refs_that_do_not(one: str, other: str) -> None:
    assert prepared_ref(one).casefold() != prepared_ref(other).casefold()
