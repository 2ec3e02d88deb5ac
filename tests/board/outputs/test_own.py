"""A project's own types: behind the same gate, and whatever their code does, ours goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from callboard import canonical
from callboard.board.outputs import own_call
from callboard.board.outputs.authority import EffectContext
from callboard.board.outputs.bounds import Bounds
from callboard.board.outputs.claims import BodyOutput, ClaimOutputs
from callboard.board.outputs.deliverable import check_deliverable
from callboard.board.outputs.descriptor import OwnEntry, prepared_ref, refs_of
from callboard.board.outputs.effects import apply_claim, prepare_claim
from callboard.board.outputs.handlers import gate
from callboard.board.outputs.handlers.own import OwnHandler
from callboard.board.outputs.handlers.registry import handler_of
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.resources import Target
from callboard.board.outputs.staging import Stager
from callboard.board.protocol.commit import AssignedClaim
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.board.outputs import zoo
from tests.board.outputs.scene import (
    REPOSITORY,
    assignment,
    context,
    git,
    make_repository,
    member,
    output,
    outputs,
    sha,
    staging,
    verify,
)
from tests.board.outputs.test_deliverable import one, work
from tests.own_outputs import install, install_example
from tests.waiting import until

ZOO = {
    "callboard.outputs": {
        **{
            f"zoo.{name.lower()}": f"zoo:{name}"
            for name in (
                "Good", "Looks", "Prints", "Raises", "Dies", "Hangs", "Nonsense", "Aims", "Lies",
                "Refuses", "Broken", "Half",
            )
        },
        "zoo.instance": "zoo:steady",
        "zoo.nowhere": "zoo:Nobody",
        "zoo.gone": "no_such_module:Handler",
    },
    "callboard.verifiers": {"zoo.judge": "zoo:judge"},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "user")


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The zoo and the example, installed for this process and those it starts."""
    made = install(tmp_path / "site", "zoo", Path(zoo.__file__).read_text(), ZOO)
    install_example(made)
    monkeypatch.syspath_prepend(str(made))
    return made


def body(name: str, number: int = 1, **fields: Any) -> BodyOutput:
    data = canonical.encode(fields)
    return BodyOutput(f"o{name}{number}", name, number, sha(data), len(data), data)


def claim_of(name: str, most: int = 3, **rule: Any) -> AssignedClaim:
    contract = outputs(**{name: (0, most)})
    contract["outputs"][0] |= rule
    return member(1, contract)


def opened(repository: Repository, name: str, **rule: Any) -> EffectContext:
    return context(repository, claim_of(name, **rule))


def prepared(repository: Repository, found: BodyOutput) -> OwnEntry:
    entry = gate.prepare(opened(repository, found.type), found)
    assert isinstance(entry, OwnEntry)
    return entry


def refusal(repository: Repository, found: BodyOutput) -> CallboardError:
    """What stands against preparing an output; nothing of it is left behind."""
    claim = claim_of(found.type)
    made = ClaimOutputs(
        claim.handle, claim.claim_id, claim.work_id, "completed", "finished", outputs=(found,)
    )
    answer = prepare_claim(context(repository, claim), made)
    assert answer.outcome == "cancelled"
    assert repository.read_ref(prepared_ref(claim.claim_id)) is None
    with pytest.raises(CallboardError) as refused:
        gate.prepare(opened(repository, found.type), found)
    assert [item.code for item in answer.refusals] == [refused.value.code]
    assert refused.value.hint
    return refused.value


def deliver(found: EffectContext, *made: Any) -> EffectContext:
    claim = ClaimOutputs(
        found.handle, found.place.claim_id, found.place.work_id, "completed", "finished",
        outputs=made,
    )  # fmt: skip
    answer = prepare_claim(found, claim)
    assert answer.outcome == "completed", answer
    after = replace(found, phase="completed")
    apply_claim(after)
    return after


# --- the way of an output ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zoo.good", "zoo.instance"])
def test_an_output_is_prepared_applied_and_read_back(
    folder: Path, repository: Repository, name: str
) -> None:
    found = opened(repository, name)
    before = git(folder, "for-each-ref")
    entry = gate.prepare(found, body(name, say="hello"))
    assert isinstance(entry, OwnEntry)
    assert git(folder, "for-each-ref") == before
    claim = found.place.claim_id
    assert entry == OwnEntry(
        output_type=name,
        ref=f"refs/callboard/own/{claim}/{name}-001",
        blob=git(folder, "hash-object", "--stdin", stdin=b'{"say":"hello"}'),
        sha256=sha(b'{"say":"hello"}'),
        size_bytes=15,
        data={"said": "hello"},
        target=Target(repository=REPOSITORY, ref=f"refs/callboard/own/{claim}/kept-1"),
    )
    assert gate.entry_type(entry) == name
    after = deliver(found, body(name, say="hello"), body(name, 2, say="again"))
    apply_claim(after)
    answer = verify(after)
    assert answer.verified
    assert [item["output_type"] for item in answer.descriptor["outputs"]] == [name, name]
    assert git(folder, "cat-file", "blob", f"refs/callboard/own/{claim}/kept-1") == "hello"
    assert git(folder, "cat-file", "blob", f"refs/callboard/own/{claim}/kept-2") == "again"
    assert refs_of(entry) == {
        f"refs/callboard/own/{claim}/kept-1": None,
        entry.ref: entry.blob,
    }
    git(folder, "fsck", "--strict")


def test_what_is_lacking_is_no_delivery(folder: Path, repository: Repository) -> None:
    found = opened(repository, "zoo.good")
    after = deliver(found, body("zoo.good", say="x"))
    kept = f"refs/callboard/own/{found.place.claim_id}/kept-1"
    git(folder, "update-ref", "-d", kept)
    (lacking,) = verify(after).missing
    assert lacking.code == "output_unverified"
    assert "it was not kept" in lacking.message
    other = git(folder, "hash-object", "-w", "--stdin", stdin=b"other")
    git(folder, "update-ref", kept, other)
    with pytest.raises(CallboardError) as refused:
        apply_claim(after)
    assert "something else stands there" in refused.value.message
    git(folder, "update-ref", "-d", kept)
    apply_claim(after)
    assert verify(after).verified
    git(folder, "update-ref", "-d", f"refs/callboard/own/{found.place.claim_id}/zoo.good-001")
    assert [item.code for item in verify(after).missing] == ["output_unverified"]


def test_the_gate_is_before_every_own_handler(repository: Repository) -> None:
    found = opened(repository, "zoo.good")
    entry = gate.prepare(found, body("zoo.good"))
    for phase in ("open", "closed"):
        with pytest.raises(CallboardError, match="effects_unauthorized"):
            gate.apply(replace(found, phase=phase), entry)
    undeclared = context(repository, member(1, outputs(artifact=(0, 1))))
    with pytest.raises(CallboardError, match="output_not_declared"):
        gate.prepare(undeclared, body("zoo.good"))
    nothing = {**found.payload, "resource_scope": {"version": 1, "resources": []}}
    with pytest.raises(CallboardError, match="effect_scope_denied"):
        gate.prepare(replace(found, payload=nothing), body("zoo.good"))
    with pytest.raises(CallboardError, match="effect_scope_denied"):
        gate.apply(replace(found, payload=nothing, phase="completed"), entry)
    other = context(repository, member(2, outputs(**{"zoo.good": (0, 3)})), "completed")
    with pytest.raises(CallboardError, match="output_unverified"):
        gate.apply(other, entry)
    assert isinstance(handler_of("zoo.good"), OwnHandler)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (None, "effect_scope_denied"),
        ({"repository": "some/other"}, "effect_scope_denied"),
        ({"repository": REPOSITORY, "run_id": "1"}, "effect_scope_denied"),
        ({"repository": REPOSITORY, "reff": "x"}, "target_invalid"),
        ({}, "target_invalid"),
        ("everything", "handler_failed"),
    ],
)
def test_a_target_cannot_be_left_out_or_made_up(
    repository: Repository, target: Any, code: str
) -> None:
    assert refusal(repository, body("zoo.aims", target=target)).code == code


# --- broken handlers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (body("zoo.raises", how="value"), "ValueError at"),
        (body("zoo.raises", how="exit"), "SystemExit"),
        (body("zoo.raises", how="interrupt"), "KeyboardInterrupt"),
        (body("zoo.raises", how="group"), "ExceptionGroup"),
        (body("zoo.dies", die="exit"), "without an answer"),
        (body("zoo.dies", die="abort"), "without an answer"),
        (body("zoo.dies", die="segfault"), "without an answer"),
        (body("zoo.nonsense", answer="none"), "NoneType, not an object"),
        (body("zoo.nonsense", answer="list"), "list, not an object"),
        (body("zoo.nonsense", answer="float"), "1.5"),
        (body("zoo.nonsense", answer="deep"), "deep"),
        (body("zoo.nonsense", answer="object"), "object has no JSON form"),
        (body("zoo.nonsense", answer="surrogate"), ""),
        (body("zoo.nonsense", answer="keys"), ""),
        (body("zoo.nonsense", answer="large"), "at most 1024 are kept"),
        (body("zoo.nonsense", answer="huge"), "more than 65536 bytes"),
        (body("zoo.broken"), "OSError"),
        (body("zoo.half"), "AttributeError"),
        (body("zoo.nowhere"), "AttributeError"),
        (body("zoo.gone"), "ModuleNotFoundError"),
    ],
    ids=lambda value: "" if isinstance(value, str) else f"{value.type} {value.data.decode()[:30]}",
)
def test_a_broken_handler_is_a_refusal(
    repository: Repository, found: BodyOutput, told: str
) -> None:
    error = refusal(repository, found)
    assert error.code == "handler_failed"
    assert told in error.message
    assert found.type in error.message
    assert error.message.isprintable()
    assert len(error.message) < 600


def test_a_handler_that_says_no_is_heard(repository: Repository) -> None:
    error = refusal(repository, body("zoo.refuses"))
    assert error.code == "output_refused"
    assert "not  [31mthis one" in error.message


def test_what_a_handler_prints_goes_nowhere(
    repository: Repository, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = prepared(repository, body("zoo.prints", say="x"))
    assert entry.data == {"said": "x"}
    assert capfd.readouterr() == ("", "")


def test_a_handler_that_hangs_is_ended_with_all_it_started(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_call, "PREPARE", own_call.PREPARE._replace(limit_s=3.0))
    pid = tmp_path / "pid"
    with pytest.raises(CallboardError) as refused:
        gate.prepare(opened(repository, "zoo.hangs"), body("zoo.hangs", pid=str(pid)))
    assert refused.value.code == "handler_failed"
    assert "within 3 seconds" in refused.value.message
    child = int(pid.read_text())
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")


def test_what_was_asked_ends_with_whoever_asked(repository: Repository, tmp_path: Path) -> None:
    """Else it could have its effect beside the next one's that asks."""
    pid = tmp_path / "pid"
    question = {
        "output": {},
        "expected": {"do": "wait", "pid": str(pid)},
        "git_folder": str(repository.common_dir),
    }
    asking = (
        "import json, sys; from callboard.board.outputs import own_call; "
        "own_call.ask(own_call.JUDGE, 'zoo.judge', json.loads(sys.argv[1]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", asking, json.dumps(question)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )
    try:
        until(lambda: pid.exists() and pid.read_text() != "")
        child = int(pid.read_text())
        assert psutil.pid_exists(child)
    finally:
        process.kill()
        process.wait()
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")


def test_prepare_sees_no_credentials(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "SSH_AUTH_SOCK", "PYTHONPATH", "CALLBOARD_STAGING", "SECRET"):
        monkeypatch.setenv(name, "secret")
    entry = prepared(repository, body("zoo.looks"))
    assert entry.data == {
        "said": "",
        # Python itself sets the last one, where the locale of the C library is in use.
        "variables": ["HOME", "LANG", "PATH", "TMPDIR", "TZ"],
        "home": [],
        "same": True,
        "user": False,
        "path": False,
    }


def test_effects_have_the_environment_and_their_words_are_kept_back(
    folder: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    found = opened(repository, "zoo.raises")
    entry = gate.prepare(found, body("zoo.raises"))
    for attempt in (OwnHandler("zoo.raises").apply, OwnHandler("zoo.raises").verify):
        with pytest.raises(CallboardError) as refused:
            attempt(found.place, entry)
        assert refused.value.code == "handler_failed"
        assert "RuntimeError at" in refused.value.message
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "code"),
    [("not there", "output_unverified"), (True, "handler_failed"), (0, "handler_failed"),
     ({}, "handler_failed")],
)  # fmt: skip
def test_only_none_says_that_nothing_is_lacking(
    repository: Repository, answer: Any, code: str
) -> None:
    found = opened(repository, "zoo.lies")
    entry = gate.prepare(found, body("zoo.lies", verify=answer))
    with pytest.raises(CallboardError) as refused:
        gate.apply(replace(found, phase="completed"), entry)
    assert refused.value.code == code


# --- what is not installed -----------------------------------------------------------------------


def test_a_type_without_a_handler_is_refused_before_it_is_admitted(
    folder: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {"zoo.good": (0, 3), "zoo.absent": (0, 3)}
    check_deliverable(repository, work(one("zoo.good")), "w", recipe)
    with pytest.raises(CallboardError) as refused:
        check_deliverable(repository, work(one("zoo.absent")), "w", recipe)
    assert refused.value.code == "handler_missing"
    assert "node 'n'" in refused.value.message
    assert refused.value.details["entry_point"] == "zoo.absent"
    with pytest.raises(CallboardError) as refused:
        check_deliverable(repository, work(one("zoo.good")), "w", {})
    assert refused.value.code == "output_not_declared"
    twice = install(
        tmp_path / "twice", "again", "", {"callboard.outputs": {"zoo.good": "zoo:Good"}}
    )
    monkeypatch.syspath_prepend(str(twice))
    with pytest.raises(CallboardError) as refused:
        check_deliverable(repository, work(one("zoo.good")), "w", recipe)
    assert refused.value.code == "handler_missing"


def test_a_worker_may_stage_what_its_recipe_declares(tmp_path: Path) -> None:
    terms = Terms.of({"zoo.absent": (0, 1)})
    side = Stager(staging(tmp_path, terms), assignment(outputs(**{"zoo.absent": (0, 1)})))
    assert side.own("zoo.absent", b'{"a": 1}').handle == "h1"
    for name, code in (("zoo.other", "output_not_declared"), ("Zoo", "output_type_invalid")):
        with pytest.raises(CallboardError) as refused:
            side.own(name, b'{"a": 1}')
        assert refused.value.code == code


def test_a_handler_that_is_gone_is_no_delivery_and_no_crash(
    repository: Repository, site: Path
) -> None:
    after = deliver(opened(repository, "zoo.good"), body("zoo.good"))
    shutil.rmtree(site / "zoo-1.0.dist-info")
    assert [item.code for item in verify(after).missing] == ["handler_missing"]
    with pytest.raises(CallboardError, match="effects_incomplete"):
        apply_claim(after)


# --- verifiers -----------------------------------------------------------------------------------


def judged(repository: Repository, expected: Mapping[str, Any]) -> list[Any]:
    rule = {"verification": {"verifier_id": "zoo.judge", "expected": dict(expected)}}
    contract = outputs(artifact=(1, 1))
    contract["outputs"][0] |= rule
    claim = member(1, contract)
    found = context(repository, claim)
    after = deliver(found, output("a", b"words"))
    answer = verify(after)
    assert answer.verified == (not answer.missing)
    return [(item.code, item.message) for item in answer.missing]


@pytest.mark.parametrize(
    ("expected", "code", "told"),
    [
        ({"do": "read", "text": "words"}, None, ""),
        ({"do": "read", "text": "other"}, "verification_failed", "zoo.judge of artifact: other"),
        ({"do": "say", "answer": None}, None, ""),
        ({"do": "say", "answer": True}, "handler_failed", "bool, neither None nor text"),
        ({"do": "say", "answer": ""}, "verification_failed", ""),
        ({"do": "raise"}, "handler_failed", "ValueError"),
        ({"do": "exit"}, "handler_failed", "without an answer"),
        ({"do": "look"}, "verification_failed", "HOME,LANG,PATH,TMPDIR,TZ"),
        ({"do": "path"}, "handler_failed", "KeyError"),
    ],
)
def test_a_verifier_judges_each_output_of_its_type(
    repository: Repository, expected: dict[str, Any], code: str | None, told: str
) -> None:
    found = judged(repository, expected)
    assert [item for item, _message in found] == ([] if code is None else [code])
    assert all(told in message for _code, message in found)


def test_a_verifier_reads_what_a_patch_made(folder: Path, repository: Repository) -> None:
    head = git(folder, "rev-parse", "HEAD")
    question = {
        "output": {"commit": head},
        "expected": {"do": "path", "path": "README"},
        "git_folder": str(repository.common_dir),
    }
    assert own_call.ask(own_call.JUDGE, "zoo.judge", question).strip() == "one"
    question["expected"] = {"do": "path", "path": "nowhere"}
    assert "no nowhere in commit" in own_call.ask(own_call.JUDGE, "zoo.judge", question)


def test_an_unknown_verifier_is_told_at_submission_and_at_delivery(
    repository: Repository, site: Path
) -> None:
    asked = {"verifier_id": "zoo.judge", "expected": {"do": "say"}}
    contract = one("artifact", verification=asked)
    check_deliverable(repository, work(contract), "w", {"artifact": (0, 1)})
    claim = member(1, contract)
    after = deliver(context(repository, claim), output("a"))
    assert verify(after).verified
    shutil.rmtree(site / "zoo-1.0.dist-info")
    assert [item.code for item in verify(after).missing] == ["verifier_unknown"]
    bounds = Bounds({"effect_contract": contract}, None)
    assert [item.code for item in bounds.unmet({"artifact": 1})] == ["verifier_unknown"]
    with pytest.raises(CallboardError, match="verifier_unknown"):
        check_deliverable(repository, work(contract), "w", {"artifact": (0, 1)})


# --- the example ---------------------------------------------------------------------------------


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "books"
    monkeypatch.setenv("LEDGERLINE_FOLDER", str(folder))
    return folder


BOOKED: Mapping[str, Any] = {"account": "travel", "amount": 1250}


def test_an_entry_is_booked_once_however_often_it_is_tried(
    repository: Repository, books: Path
) -> None:
    name = "ledgerline.entry"
    limit = {"verification": {"verifier_id": "ledgerline.amount", "expected": {"cents": 2000}}}
    found = opened(repository, name, **limit)
    after = deliver(found, body(name, **BOOKED))
    apply_claim(after)
    assert verify(after).verified
    (file,) = books.iterdir()
    assert file.name == f"{found.place.claim_id}-1.json"
    assert json.loads(file.read_text()) == {**BOOKED, "text": "", "work_id": found.place.work_id}
    file.write_text("{}")
    assert "is another one" in verify(after).missing[0].message
    file.unlink()
    assert "there is no entry" in verify(after).missing[0].message
    apply_claim(after)
    assert verify(after).verified


def test_the_examples_refusals(repository: Repository, books: Path) -> None:
    name = "ledgerline.entry"
    assert refusal(repository, body(name, account="a b", amount=1)).code == "output_refused"
    assert refusal(repository, body(name, account="a", amount=0)).code == "output_refused"
    claim = claim_of(name)
    paths = [{"repository": REPOSITORY, "path": "ledgerline/other"}]
    scoped = {**claim.work, "resource_scope": {"version": 1, "resources": paths}}
    with pytest.raises(CallboardError, match="effect_scope_denied"):
        gate.prepare(replace(context(repository, claim), payload=scoped), body(name, **BOOKED))
    limit = {"verification": {"verifier_id": "ledgerline.amount", "expected": {"cents": 3}}}
    after = deliver(opened(repository, name, **limit), body(name, **BOOKED))
    (wrong,) = verify(after).missing
    assert (wrong.code, "1250 cents, more than 3" in wrong.message) == ("verification_failed", True)
    assert not os.path.exists("books")
