"""Replacing a delivery-failed node: refusals, proofs by real verifiers, the ledger they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from callboard import canonical
from callboard.board.board import Accepted, Board, Folders
from callboard.board.execution.principal import make_principal
from callboard.board.execution.replacing import Replaced
from callboard.board.execution.settle import Settler
from callboard.board.ledger.history import History
from callboard.board.projection.document import state_document
from callboard.board.projection.entities import WorkState
from callboard.board.protocol import operations as ops
from callboard.board.publishing.plan import parse_plan
from callboard.board.publishing.replacement import Asking, Wish
from callboard.clock import FixedClock
from callboard.errors import CallboardError
from callboard.processes.identity import look
from tests.ambient import ROOT
from tests.board.execution.failing import RECIPE, complete, fail
from tests.golden.record import model_state
from tests.repositories import git, worker_repository

NODES: list[dict[str, Any]] = [
    {"key": "a", "payload": {"task": 1}, "contract": {"artifact": 1}, "priority": 2},
    {"key": "b", "payload": {"task": 2}, "after": ["a"]},
    {"key": "c", "payload": {"task": 3}, "after": ["b"]},
]
ANSWER = {"disposition": "idempotent", "receipt": "ticket 7"}


def says(answer: object, *, then: str = "") -> str:
    """A shell script that writes an answer."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return f"printf '%s\\n' '{text}'; {then}"


class Scene:
    """A repository with a board, on which node `a` may fail."""

    def __init__(self, folder: Path, nodes: list[dict[str, Any]] | None = None) -> None:
        self.root = folder
        self.path = worker_repository(folder / "repository", RECIPE)
        self.folders = Folders(folder / "config", folder / "state")
        make_principal(self.folders.config)
        self.board = Board.open(self.path, self.folders)
        self.environment: dict[str, str] = {"PATH": os.environ["PATH"]}
        plan = {"graph": "g", "nodes": NODES if nodes is None else nodes}
        self.board.submit(parse_plan(plan))

    def commit(self, path: str, text: str) -> str:
        """Write a file and commit it."""
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        git("add", "-A", cwd=self.path)
        git("commit", "-q", "-m", "a file", cwd=self.path)
        return git("rev-parse", "HEAD", cwd=self.path)

    def register(self, script: str, *, name: str = "check", more: str = "") -> str:
        """Commit a verifier that is a shell script; answers the commit."""
        stated = "" if "dispositions" in more else 'dispositions = ["idempotent", "inspection"]\n'
        text = f"command = {json.dumps(['sh', '-c', script])}\n{stated}{more}"
        return self.commit(f".callboard/verifiers/{name}.toml", text)

    def state(self, key: str, graph: str = "g") -> WorkState:
        """A node by its key."""
        works = self.board.history().projection.works.values()
        (found,) = [one for one in works if (one.work.graph_id, one.work.node_key) == (graph, key)]
        return found

    def replace(
        self,
        node: str = "a",
        *,
        verifier: str | None = None,
        disposition: Any = None,
        request_id: str | None = None,
        **wish: Any,
    ) -> Replaced:
        """Replace the node of that key."""
        return self.board.replace(
            self.environment,
            Wish(self.state(node).work.work_id, **wish),
            Asking(verifier, disposition),
            request_id=request_id,
        )

    def refusal(self, *arguments: Any, **options: Any) -> CallboardError:
        """How it is refused; nothing is written then."""
        before = list(self.board.history().projection.works)
        with pytest.raises(CallboardError) as caught:
            self.replace(*arguments, **options)
        assert list(self.board.history().projection.works) == before
        assert caught.value.hint
        return caught.value

    def verifications(self) -> list[Path]:
        """The folders that verifiers left."""
        return sorted((self.folders.state / "verifications").glob("*"))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A board whose node `a` failed with unknown effects."""
    scene = Scene(tmp_path)
    fail(scene.board)
    with scene.board:
        yield scene


@pytest.fixture
def harmless(tmp_path: Path) -> Iterator[Scene]:
    """A board whose node `a` failed before its effects began."""
    scene = Scene(tmp_path)
    fail(scene.board, "none")
    with scene.board:
        yield scene


def posted(replaced: Replaced) -> str:
    """The Work id of an accepted replacement."""
    assert isinstance(replaced.outcome, Accepted)
    (work_id,) = replaced.outcome.request.works
    return work_id


# --- what it is -----------------------------------------------------------------------------------


def test_it_inherits_all_but_its_place(scene: Scene) -> None:
    commit = scene.register(says(ANSWER))
    old = scene.state("a").work
    work_id = posted(scene.replace(verifier="check"))
    new = scene.state("a-r2")
    assert new.work.work_id == work_id
    for name in ("graph_id", "pool", "priority", "fairness_key", "worker_profile", "payload"):
        assert getattr(new.work, name) == getattr(old, name)
    assert (new.work.depends_on, new.state, new.attempts) == ([], "available", 0)
    assert new.place > scene.state("c").place
    origin = new.work.replacement_of
    assert isinstance(origin, ops.Replacement)
    assert (origin.work_id, origin.disposition) == (old.work_id, "idempotent")
    evidence = origin.evidence
    assert (evidence.kind, evidence.effects) == ("reconciliation", "unknown")
    assert str(evidence.receipt).startswith(f"verifier:check@{commit}:sha256:")
    assert evidence.run_id == "123456789"


def test_the_receipt_is_the_digest_of_question_and_answer(scene: Scene) -> None:
    commit = scene.register('cat "$CALLBOARD_REMEDIATION" >&2; ' + says(ANSWER))
    replaced = scene.replace(verifier="check", payload={"task": "again"})
    (folder,) = scene.verifications()
    assert sorted(path.name for path in folder.iterdir()) == [
        "asked.json", "proof.json", "verifier.stderr.log", "verifier.stdout.log",
    ]  # fmt: skip
    asked = (folder / "asked.json").read_bytes()
    assert (folder / "verifier.stderr.log").read_bytes() == asked
    proof = (folder / "proof.json").read_bytes()
    assert json.loads(proof) == {
        "verifier": "check",
        "commit": commit,
        "asked_sha256": canonical.sha256_hex(asked),
        "answer": ANSWER,
    }
    assert replaced.attestation is not None
    assert replaced.attestation.digest == canonical.sha256_hex(proof)
    question = json.loads(asked)
    assert question["work"]["node_key"] == "a"
    assert question["failure"]["reason"] == "output_missing"
    assert question["failure"]["disposition"] == "unknown"
    assert question["run"]["run_id"] == "123456789"
    assert question["claim"]["work_id"] == question["work"]["work_id"]
    assert question["proposed"]["payload"]["task"] == "again"
    assert question["outputs"]["prepared"] is None
    assert question["outputs"]["missing"][0]["code"] == "delivery_unprepared"


def test_effects_that_never_began_need_no_verifier(harmless: Scene) -> None:
    replaced = harmless.replace()
    assert replaced.attestation is None
    origin = harmless.state("a-r2").work.replacement_of
    assert isinstance(origin, ops.Replacement)
    assert origin.disposition == "idempotent"
    failure = harmless.state("a").failure_commit_id
    assert origin.evidence.receipt == f"failure:{failure}"
    assert origin.evidence.effects == "none"


def test_a_disposition_that_the_failure_does_not_prove_is_refused(harmless: Scene) -> None:
    error = harmless.refusal(disposition="compensated")
    assert error.code == "remediation_unproven"
    assert posted(harmless.replace(disposition="idempotent"))


def test_it_can_be_another_task_in_another_graph(scene: Scene) -> None:
    scene.register(says(ANSWER))
    none = {"kind": "none"}
    scene.replace(
        verifier="check", graph="repairs", key="undo", payload={"do": 1, "effect_contract": none}
    )
    work = scene.state("undo", "repairs").work
    assert (work.payload, work.depends_on) == ({"do": 1, "effect_contract": none}, [])


def test_a_new_payload_keeps_contract_and_scope_unless_it_states_them(tmp_path: Path) -> None:
    scope = {"version": 1, "resources": []}
    first = {**NODES[0], "payload": {"task": 1, "resource_scope": scope}}
    scene = Scene(tmp_path, [first])
    with scene.board:
        fail(scene.board, "none")
        scene.replace(payload={"other": True})
        payload = scene.state("a-r2").work.payload
        old = scene.state("a").work.payload
    assert payload == {
        "other": True,
        "resource_scope": scope,
        "effect_contract": old["effect_contract"],
    }


def test_edges_are_the_old_ones_or_those_given(tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [
        {"key": "root", "payload": {}},
        {"key": "side", "payload": {}, "after": ["root"]},
        {"key": "a", "payload": {}, "contract": {"artifact": 1}, "after": ["root"], "priority": 1},
    ]
    scene = Scene(tmp_path, nodes)
    with scene.board:
        assert Settler(scene.board.site).settle(complete(scene.board)) == "verified"
        fail(scene.board, "none", run_id="99")
        scene.replace(key="one")
        assert scene.state("one").work.depends_on == scene.state("a").work.depends_on
        scene.board.cancel([scene.state("one").work.work_id], reason="other")
        scene.replace(key="two", after=("side", "root", "side"))
        predecessors = scene.state("two").work.predecessors
        assert predecessors == [scene.state(key).work.work_id for key in ("side", "root")]


def test_keys_go_on_from_number_to_number(harmless: Scene) -> None:
    harmless.board.submit(parse_plan({"graph": "g", "nodes": [{"key": "a-r2", "payload": {}}]}))
    harmless.replace()
    assert harmless.state("a-r3").work.replacement_of
    assert complete_next(harmless) == "a-r3"
    harmless.replace("a-r3")
    assert harmless.state("a-r4").work.replacement_of


def complete_next(scene: Scene) -> str:
    """Fail the next node without effects; answers its key."""
    work_id = fail(scene.board, "none", run_id="77")
    return scene.board.history().projection.works[work_id].work.node_key


@pytest.mark.parametrize("key", ["ä" * 128, "x" * 256, "名前 🜁", "e\u0301", "a\u202eb", "q-r9"])
def test_odd_names_get_names_that_fit(tmp_path: Path, key: str) -> None:
    scene = Scene(tmp_path, [{**NODES[0], "key": key}])
    with scene.board:
        fail(scene.board, "none")
        scene.replace(key)
        projection = scene.board.history().projection
        (new,) = [one.work for one in projection.works.values() if one.work.replacement_of]
    assert len(new.node_key.encode()) <= 256
    assert new.node_key.endswith("-r2")
    assert key.startswith(new.node_key.removesuffix("-r2"))


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("disposition", [None, "idempotent"])
def test_a_typed_claim_is_no_proof(scene: Scene, disposition: str | None) -> None:
    error = scene.refusal(disposition=disposition)
    assert error.code == "remediation_verifier_required"
    assert "unknown effects" in error.message
    assert ".callboard/verifiers/NAME.toml" in error.hint
    assert ("proves nothing" in error.message) == (disposition is not None)
    scene.register(says(ANSWER))
    assert "--verifier: check" in scene.refusal().hint


def test_partial_effects_need_a_verifier_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.board:
        fail(scene.board, "partial")
        assert scene.refusal().details["disposition"] == "partial"


@pytest.mark.parametrize("prepare", ["nothing", "claimed", "pending", "verified", "cancelled"])
def test_only_a_failed_delivery_is_replaced(tmp_path: Path, prepare: str) -> None:
    nodes = [{**NODES[0], "contract": {}}] if prepare == "verified" else NODES
    scene = Scene(tmp_path, nodes)
    with scene.board:
        if prepare == "claimed":
            scene.board.grant()
        if prepare in ("pending", "verified"):
            complete(scene.board)
        if prepare == "verified":
            Settler(scene.board.site).settle(scene.state("a").work.work_id)
        if prepare == "cancelled":
            scene.board.cancel([scene.state("a").work.work_id], reason="other")
        error = scene.refusal()
    assert error.code == "replacement_invalid"
    words = {"nothing": "available", "pending": "completed, its delivery pending"}
    found = words.get(prepare, prepare)
    assert found in error.message


def test_a_node_has_one_replacement_at_a_time(harmless: Scene) -> None:
    harmless.replace()
    new = harmless.state("a-r2").work.work_id
    error = harmless.refusal()
    assert error.code == "replacement_exists"
    assert error.details == {
        "work_id": harmless.state("a").work.work_id, "replaced_by": new, "state": "available",
    }  # fmt: skip
    assert complete_next(harmless) == "a-r2"
    assert f"callboard replace {new[:12]}" in harmless.refusal().hint
    harmless.replace("a-r2")
    harmless.board.cancel([harmless.state("a-r3").work.work_id], reason="other")
    harmless.replace("a-r2")
    assert harmless.state("a-r4").state == "available"


def test_a_key_that_is_taken_or_no_plain_name_is_refused(harmless: Scene) -> None:
    assert harmless.refusal(key="b").code == "work_conflict"
    for key in ("-x", "a..b", " x", "x\n", "x" * 257, "\ud800"):
        error = harmless.refusal(key=key)
        assert (error.code, "--key" in error.hint) == ("plan_invalid", True)
    assert "--graph" in harmless.refusal(graph="..").hint
    assert "--after" in harmless.refusal(after=("b", "\udcff")).hint


def test_an_edge_to_nowhere_and_a_huge_payload_are_refused_before_the_verifier(
    scene: Scene,
) -> None:
    scene.register(f"touch {scene.root}/ran; " + says(ANSWER))
    assert "no node 'nowhere'" in scene.refusal(verifier="check", after=("nowhere",)).message
    huge = {"text": "x" * 20_000}
    assert scene.refusal(verifier="check", payload=huge).code == "payload_limit"
    contract = {"version": 1, "outputs": [{"type": "letter", "min": 1, "max": 1}]}
    error = scene.refusal(verifier="check", payload={"effect_contract": contract})
    assert error.code == "output_not_declared"
    assert not (scene.root / "ran").exists()
    assert scene.verifications() == []


def test_the_largest_payload_passes(scene: Scene) -> None:
    scene.register(says(ANSWER))
    room = 16_384 - len(canonical.encode({**scene.state("a").work.payload, "text": ""}))
    room += len(canonical.encode({"task": 1})) - 1
    posted(scene.replace(verifier="check", payload={"text": "x" * room}))
    assert scene.refusal("b").code == "replacement_invalid"


def test_a_request_that_stands_is_answered_without_a_verifier(scene: Scene) -> None:
    scene.register(f"echo x >> {scene.root}/ran; " + says(ANSWER))
    first = scene.replace(verifier="check", request_id="q1")
    scene.register("exit 9")
    again = scene.replace(verifier="check", request_id="q1")
    assert isinstance(first.outcome, Accepted)
    assert isinstance(again.outcome, Accepted)
    assert (again.outcome.replayed, again.attestation) == (True, None)
    assert again.outcome.request.id == first.outcome.request.id
    assert (scene.root / "ran").read_text() == "x\n"
    others: list[dict[str, Any]] = [
        {"payload": {"task": 9}},
        {"key": "else"},
        {"after": ("b",)},
        {"graph": "h"},
        {"disposition": "inspection"},
    ]
    for other in others:
        error = scene.refusal(verifier="check", request_id="q1", **other)
        assert error.code == "request_conflict", other
    assert scene.refusal(verifier="another", request_id="q1").code == "request_conflict"


# --- verifiers are registered by a commit ---------------------------------------------------------


def test_an_uncommitted_verifier_is_none(scene: Scene) -> None:
    place = scene.path / ".callboard" / "verifiers" / "mine.toml"
    place.parent.mkdir()
    place.write_text(f'command = ["touch", "{scene.root}/ran"]\ndispositions = ["idempotent"]\n')
    git("add", "-A", cwd=scene.path)
    error = scene.refusal(verifier="mine")
    assert error.code == "remediation_verifier_unknown"
    assert "git commit" in error.hint
    assert not (scene.root / "ran").exists()


def test_what_counts_is_the_committed_file_and_tree(scene: Scene) -> None:
    scene.commit("tool.sh", "exit 3\n")
    scene.register("sh tool.sh")
    (scene.path / "tool.sh").write_text(says(ANSWER))
    place = scene.path / ".callboard" / "verifiers" / "check.toml"
    place.write_text(place.read_text().replace("sh tool.sh", "true"))
    error = scene.refusal(verifier="check")
    assert (error.code, error.details["exit_code"]) == ("remediation_unproven", 3)


@pytest.mark.parametrize(
    ("name", "code"),
    [("../check", "remediation_verifier_unknown"), ("ä", "remediation_verifier_unknown"),
     ("faulty", "verifier_invalid"), ("link", "file_not_regular")],
)  # fmt: skip
def test_a_verifier_that_cannot_be_one_is_refused(scene: Scene, name: str, code: str) -> None:
    scene.register(says(ANSWER))
    (scene.path / ".callboard" / "verifiers" / "link.toml").symlink_to("check.toml")
    scene.commit(".callboard/verifiers/faulty.toml", "command = 1\n")
    assert scene.refusal(verifier=name).code == code
    assert posted(scene.replace(verifier="check"))


def runs(pid: int) -> bool:
    """Whether the process runs; one that nobody has asked for its end does not."""
    facts = look(pid)
    return facts is not None and not facts.ended


# --- what a verifier may do -----------------------------------------------------------------------

PROVES_NOTHING: Mapping[str, tuple[str, str]] = {
    "non-zero": (
        says(ANSWER, then="echo no luck >&2; exit 4"),
        "exited with 4; its last words: no",
    ),
    "signal": (says(ANSWER, then="kill -9 $$"), "ended by signal 9"),
    "silence": ("true", "gave no answer"),
    "no JSON": (says("idempotent"), "gave no answer"),
    "half JSON": (says('{"disposition": "idempotent"'), "gave no answer"),
    "two answers": (says(ANSWER) + says(ANSWER), "gave no answer"),
    "a list": (says([ANSWER]), "not an object"),
    "more fields": (says({**ANSWER, "force": True}), "gave no answer"),
    "no receipt": (says({"disposition": "idempotent"}), "gave no answer"),
    "empty receipt": (says({**ANSWER, "receipt": ""}), "gave no answer"),
    "endless receipt": (says({**ANSWER, "receipt": "x" * 300}), "gave no answer"),
    "control characters": (says('{"disposition":"idempotent","receipt":"\\u001b[2J"}'), "gave no"),
    "key twice": (
        says('{"disposition":"inspection","disposition":"idempotent","receipt":"x"}'),
        "gave no answer",
    ),
    "another word": (says({**ANSWER, "disposition": "safe"}), "gave no answer"),
    "beyond its file": (says({**ANSWER, "disposition": "compensated"}), "attests 'compensated'"),
    "no UTF-8": ("printf '\\377\\376'", "gave no answer"),
    "deep": (says("[" * 500), "gave no answer"),
}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A board with a verifier for each of these, on which nothing is ever proven."""
    scene = Scene(tmp_path_factory.mktemp("gallery"))
    fail(scene.board)
    for number, (script, _said) in enumerate(PROVES_NOTHING.values()):
        scene.register(script, name=f"v{number}")
    with scene.board:
        yield scene


@pytest.mark.parametrize("case", PROVES_NOTHING)
def test_anything_else_proves_nothing(gallery: Scene, case: str) -> None:
    error = gallery.refusal(verifier=f"v{list(PROVES_NOTHING).index(case)}")
    assert error.code == "remediation_unproven"
    assert PROVES_NOTHING[case][1] in error.message
    folder = Path(str(error.details["folder"]))
    assert folder in gallery.verifications()
    assert (folder / "asked.json").exists()
    assert not (folder / "proof.json").exists()


def test_the_disposition_asked_for_has_to_be_attested(scene: Scene) -> None:
    scene.register(says(ANSWER))
    error = scene.refusal(verifier="check", disposition="inspection")
    assert "not 'inspection' as asked for" in error.message
    assert "it was not run" in scene.refusal(verifier="check", disposition="compensated").message
    assert len(scene.verifications()) == 1


def test_a_program_that_is_not_there_says_so(scene: Scene) -> None:
    scene.commit(
        ".callboard/verifiers/gone.toml",
        'command = ["no-such-program"]\ndispositions = ["idempotent"]\n',
    )
    assert "'no-such-program': ENOENT" in scene.refusal(verifier="gone").message


def test_a_flood_is_bounded(scene: Scene) -> None:
    scene.register(f"head -c 50000000 /dev/zero | tr '\\0' x; {says(ANSWER)}")
    error = scene.refusal(verifier="check")
    assert "it wrote 500000" in error.message
    assert len(error.message) < 2_000
    (folder,) = scene.verifications()
    assert (folder / "verifier.stdout.log").stat().st_size == 65_536


def test_a_flood_of_complaints_does_not_hide_an_answer(scene: Scene) -> None:
    scene.register(f"head -c 5000000 /dev/zero | tr '\\0' x >&2; {says(ANSWER)}")
    assert posted(scene.replace(verifier="check"))


def test_one_that_hangs_is_ended_with_its_children(scene: Scene) -> None:
    note = scene.root / "children"
    stubborn = f"trap '' TERM; echo $$ >> {note}; while :; do sleep 0.1; done"
    scene.commit("stubborn.sh", stubborn)
    scene.register(
        f"sh stubborn.sh & setsid sh stubborn.sh & echo waiting >&2; {stubborn}",
        more="timeout_s = 1\n",
    )
    error = scene.refusal(verifier="check")
    assert "was stopped at its time limit, 1 s; its last words: waiting" in error.message
    pids = [int(line) for line in note.read_text().split()]
    assert len(pids) == 3
    assert [pid for pid in pids if runs(pid)] == []


def test_one_that_leaves_somebody_behind_proves_nothing(
    scene: Scene, ending: Callable[[int], object]
) -> None:
    note = scene.root / "left"
    scene.register(
        f"setsid sh -c 'echo $$ > {note}; exec sleep 300' > /dev/null 2>&1 < /dev/null &"
        f" until [ -s {note} ]; do sleep 0.05; done; " + says(ANSWER)
    )
    error = scene.refusal(verifier="check")
    pid = int(note.read_text())
    if runs(pid):
        ending(pid)
    assert f"left processes behind: {pid} sleep 300" in error.message


def test_it_sees_a_clone_and_nothing_of_the_callers_world(scene: Scene) -> None:
    scene.environment |= {
        "TOKEN": "open-sesame", "OTHER": "not named", "GIT_DIR": "/nowhere",
        "CALLBOARD_STATE_DIR": "/nowhere", "HOME": "/home/somebody",
    }  # fmt: skip
    commit = scene.register(
        "env >&2; git status --porcelain >&2; git remote >&2; git rev-parse HEAD > ran;"
        ' mv ran "$OUT"; ' + says(ANSWER),
        more='env = ["TOKEN", "OUT"]\n',
    )
    out = scene.root / "out"
    scene.environment["OUT"] = str(out)
    posted(scene.replace(verifier="check"))
    assert out.read_text().strip() == commit
    (folder,) = scene.verifications()
    seen = (folder / "verifier.stderr.log").read_text()
    assert "TOKEN=open-sesame" in seen
    assert "OTHER" not in seen
    assert "somebody" not in seen
    assert "GIT_DIR" not in seen
    assert "CALLBOARD_STATE_DIR" not in seen
    assert [path for path in folder.iterdir() if path.is_dir()] == []


def test_what_was_handed_on_is_never_repeated(scene: Scene) -> None:
    scene.environment["TOKEN"] = "open-sesame"
    scene.register(
        says('{"disposition":"open-sesame","receipt":"x"}', then='echo "bad $TOKEN" >&2; exit 0'),
        more='env = ["TOKEN"]\n',
    )
    error = scene.refusal(verifier="check")
    assert "open-sesame" not in json.dumps(error.document())
    assert "bad ***" in error.message


def test_one_that_ruins_its_folders_is_tidied_up_after(scene: Scene) -> None:
    scene.register(
        'mkdir -p deep/er; chmod 0 deep; chmod 0 "$HOME" "$TMPDIR"; rm -rf .git; ' + says(ANSWER)
    )
    posted(scene.replace(verifier="check"))
    (folder,) = scene.verifications()
    assert [path for path in folder.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("trick", ["fifo", "link", "gone"])
def test_one_that_swaps_its_own_log_proves_nothing(scene: Scene, trick: str) -> None:
    swap = {"fifo": "mkfifo", "link": "ln -s /etc/passwd", "gone": "true"}[trick]
    scene.register(
        says(ANSWER)
        + 'log="$(dirname "$CALLBOARD_REMEDIATION")/verifier.stdout.log"; rm "$log"; '
        + (f'{swap} "$log"' if trick != "gone" else "true")
    )
    error = scene.refusal(verifier="check")
    assert error.code == "remediation_unproven"
    assert "root:" not in json.dumps(error.document())


def test_unicode_goes_in_and_out_unharmed(tmp_path: Path) -> None:
    word = "Zürich 🜁 \u202e e\u0301"
    scene = Scene(tmp_path, [{**NODES[0], "key": "é-名", "payload": {"text": word}}])
    with scene.board:
        fail(scene.board)
        scene.commit(
            "judge.py",
            "import json, os, sys\n"
            'asked = json.load(open(os.environ["CALLBOARD_REMEDIATION"], encoding="utf-8"))\n'
            'answer = {"disposition": "inspection", "receipt": asked["work"]["node_key"]}\n'
            'assert asked["proposed"]["payload"]["text"] == asked["work"]["payload"]["text"]\n'
            'sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8"))\n',
        )
        scene.commit(
            ".callboard/verifiers/check.toml",
            f'command = ["{sys.executable}", "judge.py"]\ndispositions = ["inspection"]\n',
        )
        replaced = scene.replace("é-名", verifier="check")
    assert replaced.attestation is not None
    assert replaced.attestation.answer.receipt == "é-名"


# --- on the board ---------------------------------------------------------------------------------


def test_the_ledger_replays_and_the_model_agrees(scene: Scene) -> None:
    scene.register(says(ANSWER))
    scene.replace(verifier="check")
    scene.board.cancel([scene.state(key).work.work_id for key in ("c", "b")], reason="replaced")
    more = {"key": "b2", "payload": {}, "after": ["a-r2"]}
    scene.board.submit(parse_plan({"graph": "g", "nodes": [more]}))
    assert fail(scene.board, "none", run_id="55") == scene.state("a-r2").work.work_id
    scene.replace("a-r2")
    data = scene.board.ledger_bytes()
    history = History.read(data)
    cold = canonical.encode(state_document(history.projection))
    assert cold == canonical.encode(state_document(scene.board.history().projection))
    assert cold == canonical.encode(model_state(history))


def test_a_checkpoint_keeps_who_replaces_whom(harmless: Scene) -> None:
    harmless.board.checkpoint()
    harmless.replace()
    origin = harmless.state("a-r2").work.replacement_of
    assert isinstance(origin, ops.Replacement)
    assert origin.evidence.receipt == f"failure:{harmless.state('a').completion_id}"
    harmless.board.checkpoint()
    assert harmless.refusal().code == "replacement_exists"


def test_two_at_once_become_one(scene: Scene) -> None:
    """Both have their proof before either publishes."""
    meeting = scene.root / "meeting"
    meeting.mkdir()
    scene.register(
        'touch "$MEETING/$$"; until [ "$(ls "$MEETING" | wc -l)" -ge 2 ]; do sleep 0.05; done; '
        + says(ANSWER),
        more='env = ["MEETING"]\ntimeout_s = 60\n',
    )
    words = [
        sys.executable, "-m", "callboard", "--repo", str(scene.path), "--json",
        "replace", "a", "--verifier", "check",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "MEETING": str(meeting),
        "PYTHONPATH": str(ROOT / "src"),
        "CALLBOARD_CONFIG_DIR": str(scene.folders.config),
        "CALLBOARD_STATE_DIR": str(scene.folders.state),
    }
    started = [
        subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    ended = [process.communicate(timeout=120) for process in started]
    answers = [json.loads(out) for out, _err in ended]
    assert sorted(process.returncode for process in started) == [0, 1]
    (refused,) = [one["error"]["code"] for one in answers if "error" in one]
    assert refused == "replacement_exists"
    works = scene.board.history().projection.works.values()
    assert [one.work.node_key for one in works if one.work.replacement_of] == ["a-r2"]


def test_a_clock_that_was_set_back_changes_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    fail(scene.board, "none")
    at = scene.board.history().projection.last_at
    scene.board.close()
    with Board.open(scene.path, scene.folders, clock=FixedClock(1)) as scene.board:
        scene.replace()
        assert scene.state("a-r2").work.enqueued == at
