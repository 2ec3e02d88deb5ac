"""The stories that golden ledgers tell, by name.

Each makes the bytes of a ledger from the suite's builders or the model's histories, the same every
time. A new kind of operation gets a story of its own here; `record.py` does the rest.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from msgspec import UNSET, structs

from callboard.board.protocol import operations as ops
from callboard.board.protocol import policy as records
from tests.board import building as make
from tests.board.boards import Board
from tests.board.building import ADMINISTRATOR, DISPATCHER, REPOSITORY, line_of, work
from tests.board.github_board import github_board, on_github
from tests.board.ledger.checkpoints import Chain
from tests.model.canon import canonical, commit_identity
from tests.model.history import random_history
from tests.model.writing import reseal

Story = Callable[[], bytes]

STORIES: dict[str, Story] = {}


def story(name: str) -> Callable[[Story], Story]:
    """Tell a story under a name."""

    def keep(tell: Story) -> Story:
        STORIES[name] = tell
        return tell

    return keep


# --- sound ones ---------------------------------------------------------------------------------


def lived() -> Board:
    """A short life: two nodes, one after the other, and one that is given up."""
    board = Board([work("a"), work("b", after=["a"]), work("c")])
    board.grant(2)
    board.settle("a")
    board.pass_ms(40)
    board.bind("c")
    board.finish("c", "cancelled")
    board.release(board.projection.dispatches[_launch_of(board, "c")], "terminal_run")
    board.grant()
    board.complete("b")
    board.fail_delivery("b")
    board.cancel_work("c")
    return board


def _launch_of(board: Board, key: str) -> str:
    work_id = make.work_id(key)
    claims = [one.claim for one in board.projection.claims.values()]
    return next(one.dispatch_id for one in claims if one.work_id == work_id)


@story("plain")
def plain() -> bytes:
    return lived().data


@story("github")
def github() -> bytes:
    return github_board().data


@story("gates")
def gates() -> bytes:
    """An issue that must be closed, one that must be completed, a merge; seen in every state."""
    closed = ops.IssueDependency(resource=on_github(1), condition="closed")
    completed = ops.IssueDependency(resource=on_github(2), condition="completed")
    pull_request = on_github(3, "pull_request")
    merged = ops.PullRequestDependency(resource=pull_request, condition="merged")
    board = Board([work("a", gates=[closed]), work("b", gates=[completed, merged]), work("c")])
    at = board.at
    board.observe(
        make.observation("w", closed, at, state="waiting", resource_state="open"),
        make.observation("f", completed, at, state="failed", state_reason="not_planned"),
        make.observation("u", merged, at, state="unknown", merged=UNSET, merge_commit=UNSET),
    )
    board.pass_ms(100)
    board.grant(3, observations=[make.observation("r1", closed, board.at, source_updated_at=at)])
    board.pass_ms(100)
    later = [make.observation("r2", completed, board.at), make.observation("r3", merged, board.at)]
    board.grant(1, observations=later)
    board.settle("b")
    return board.data


@story("policy-only-genesis")
def policy_only_genesis() -> bytes:
    board = Board()
    installed = ops.Policy(epoch="e1", policy=make.policy())
    board.say("policy", [installed], ADMINISTRATOR)
    board.submit([work("a")])
    board.grant()
    board.settle("a")
    again = ops.Policy(epoch="e2", policy=make.policy(mode="strict-priority"))
    board.say("policy", [again], ADMINISTRATOR, epoch="e2")
    board.submit([work("b", priority=1), work("c", priority=5)])
    board.grant(2)
    return board.data


@story("enrolled")
def enrolled() -> bytes:
    """A policy of the older kind: producers and worker principals are listed."""
    document = make.policy(
        authorization=UNSET,
        accounting_weights={"": 1, "team": 3},
        producers={
            "7": records.Producer(
                pools=["default"], priorities=[1, 2, 3, 4, 5], fairness_keys=["", "team"]
            ),
            "9": records.Producer(pools=["default"], priorities=[3], fairness_keys=["", "team"]),
        },
        pools={"default": make.pool(profiles={"default": make.profile(principal="9")})},
    )
    board = Board([work("a", account="team"), work("b")], document)
    board.grant(2)
    group = board.group("a")
    board.dispatch(group, "started", make.SENDER, sender=make.SENDER)
    board.dispatch(group, "bound", run=board.run(group))
    board.finish("a")
    board.submit([work("d", after=["a"], account="team")], board.worker(board.group("a")))
    board.verify("a")
    return board.data


@story("layout")
def layout() -> bytes:
    """The plain story as a person would write it: spaces, escapes, keys in any order."""
    chance = random.Random(3)
    rows = []
    for row in lived().data.splitlines():
        items = list(json.loads(row).items())
        chance.shuffle(items)
        separators = chance.choice([(",", ":"), (", ", ": "), (" ,\t", " : ")])
        rows.append(json.dumps(dict(items), separators=separators))
    return ("\n".join(rows).replace('"kind"', '"\\u006bind"') + "\n").encode()


@story("permuted")
def permuted() -> bytes:
    """The plain story with its lines in another order, some of them twice."""
    rows = lived().data.splitlines(keepends=True)
    chance = random.Random(4)
    rows += chance.sample(rows, 4)
    chance.shuffle(rows)
    return b"".join(rows)


@story("unicode")
def unicode() -> bytes:
    """Names and keys from all over, some of which sort otherwise in UTF-16 than in UTF-8."""
    keys = {"": 1, "é": 2, "\uffee": 3, "😀": 5, "\u2028": 7}
    pool = make.pool("wörker", allowed_repositories=[REPOSITORY])
    document = make.policy(accounting_weights=keys, pools={"プール": pool})
    payload = {"\uffee": 1, "😀": 2, "é\u0000": '\u007f\u2028\\"/', "": [None, True, {}]}
    nodes = [
        work(
            f"ключ {number}", graph="グラフ", account=key, pool="プール", worker_profile="wörker",
            payload=payload | make.NO_WRITES,
        )
        for number, key in enumerate(keys)
    ]  # fmt: skip
    board = Board(nodes, document)
    board.grant(5, name="プール")
    return board.data


@story("batches")
def batches() -> bytes:
    """Groups of several Claims, and a launch that is rejected."""
    board = Board(
        [work(f"n{number}", priority=1 + number % 5) for number in range(9)], make.batching()
    )
    board.grant(9, 1)
    group = board.start("n0")
    board.dispatch(group, "uncertain", reason="response_lost")
    board.dispatch(group, "unresolved")
    proof = board.evidence(group, "nonlaunch")
    board.dispatch(group, "rejected", evidence=proof, reason="no_such_run")
    members = [board.projection.works[one.work_id].work.node_key for one in group.assignment.claims]
    ended = [one for key in members for one in board.cancellations(key)]
    board.release(group, "nonlaunch", ended)
    board.pass_ms(60_000)
    board.grant(2, max_bytes=600)
    return board.data


def told(seed: int, steps: int) -> Story:
    """A history of the model's."""

    def tell() -> bytes:
        return b"".join(canonical(commit) + b"\n" for commit in random_history(seed, steps))

    return tell


for _seed in (1, 3, 7, 20, 33, 41):
    STORIES[f"history-{_seed}"] = told(_seed, 40)
# Its commits have ids of another make than ours.
STORIES["foreign-ids"] = told(52, 16)
STORIES["history-long"] = told(101, 240)


# --- with kinds that came later -----------------------------------------------------------------


@story("deployment")
def deployment() -> bytes:
    """A worker evolves: a new revision, one that is switched off, and back to the first."""
    board = Board([work("a"), work("b")])
    first = make.profile()
    second = structs.replace(first, ref="b" * 40)

    def deploy(expected: records.Profile, profile: records.Profile, **fields: bool) -> None:
        made = ops.Deployment(
            pool="default",
            worker_profile="default",
            expected_ref=expected.ref,
            expected_contract="",
            profile=profile,
            reason="rollout",
            **({"available": True} | fields),
        )
        board.say("deployment", [made], DISPATCHER)

    board.grant()
    deploy(first, second)
    board.submit([work("c"), work("d", execution_ref="a" * 40)])
    board.grant()
    deploy(second, second, available=False, activate=False)
    board.grant()
    deploy(second, first)
    board.submit([work("e")])
    board.grant(4)
    return board.data


@story("replacement")
def replacement() -> bytes:
    """A delivery fails, and its replacement; what waited is given up and posted anew."""
    board = Board([work("a"), work("b", after=["a"])])

    def origin(key: str, receipt: str) -> ops.Replacement:
        proof = board.evidence(
            board.group(key),
            "reconciliation",
            source="verified_receipts",
            receipt=receipt,
            effects="unknown",
        )
        return ops.Replacement(work_id=make.work_id(key), disposition="compensated", evidence=proof)

    board.grant()
    board.complete("a")
    board.fail_delivery("a")
    receipt = f"verifier:undone@{'c' * 40}:sha256:{'d' * 64}"
    board.submit([work("a-r2", replacement_of=origin("a", receipt))])
    board.grant()
    board.complete("a-r2")
    board.fail_delivery("a-r2")
    board.submit([work("a-r3", replacement_of=origin("a-r2", "failure:q_1"))])
    board.cancel_work("b")
    board.submit([work("b-r2", after=["a-r3"])])
    board.grant()
    board.settle("a-r3")
    board.grant()
    return board.data


@story("priority")
def priority() -> bytes:
    board = Board([work("a"), work("b"), work("c", priority=5)])
    for key, new, old in (("c", 1, 5), ("a", 4, 3), ("c", 2, 1)):
        made = ops.WorkPriority(
            work_id=make.work_id(key), priority=new, expected_priority=old, reason="urgent"
        )
        board.say("priority", [made], ADMINISTRATOR)
    board.grant(3)
    return board.data


@story("issues")
def issues() -> bytes:
    """A node mirrored as an issue of the queue's own repository, with comments."""
    issue = on_github(5, repository=REPOSITORY)
    board = Board([work("a", backing_issue=issue), work("b")])
    projector = ops.Actor(
        role="projector",
        principal="8",
        repository=REPOSITORY,
        workflow=".github/workflows/p.lock.yml",
    )
    ref = "c" * 40
    link = ops.IssueLink(work_id=make.work_id("a"), resource=issue, projector_ref=ref)
    board.say("issue_link", [link], projector)
    board.say("issue_link", [link], projector)
    board.grant()
    claim = str(board.work("a").claim_id)
    for comment, claim_id in (("100", UNSET), ("101", claim)):
        made = ops.IssueComment(
            work_id=make.work_id("a"), comment_id=comment, projector_ref=ref, claim_id=claim_id
        )
        board.say("issue_comment", [made], projector)
    return board.data


STORIES["checkpoint-full"] = told(12, 24)


@story("checkpoint")
def checkpoint() -> bytes:
    """The full story with two checkpoints in the place of its first commits."""
    commits = random_history(12, 24)
    chain = Chain(commits[:12])
    chain.compact()
    chain.extend(commits[12:18])
    chain.compact()
    chain.extend(commits[18:])
    return chain.data


# --- refused ones -------------------------------------------------------------------------------

Rows = list[bytes]


def opening() -> Rows:
    """The first lines of the plain story, up to the first attempt that ends without completion."""
    return lived().data.splitlines(keepends=True)[:10]


def spoiled(name: str) -> Callable[[Callable[[Rows], Rows]], None]:
    """Tell the plain story with something wrong in its lines."""

    def keep(spoil: Callable[[Rows], Rows]) -> None:
        STORIES[f"refused-{name}"] = lambda: b"".join(spoil(opening()))

    return keep


def changed(row: bytes, *path: str | int, value: object) -> bytes:
    """A line with another value at a place, sealed anew."""
    commit = json.loads(row)
    node = commit
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    parameters = commit["request"]["parameters"]
    if "operations" in parameters:
        parameters["operations"] = commit["operations"]
    return canonical(reseal(commit)) + b"\n"


def on_top(row: bytes, previous: str | None, request_id: str) -> bytes:
    """The commit of a line as another one, after another predecessor."""
    commit = json.loads(row)
    commit["previous"] = previous
    commit["request"]["id"] = request_id
    commit["id"] = commit_identity(previous, request_id)
    return canonical(reseal(commit)) + b"\n"


def id_of(row: bytes) -> str:
    """The id of a line's commit."""
    return str(json.loads(row)["id"])


@spoiled("fork")
def _(rows: Rows) -> Rows:
    return [*rows, on_top(rows[5], id_of(rows[4]), "another")]


@spoiled("cycle")
def _(rows: Rows) -> Rows:
    one, two = json.loads(rows[-2]), json.loads(rows[-1])
    one["previous"] = two["id"]
    return [*rows[:-2], canonical(one) + b"\n", rows[-1]]


@spoiled("second-root")
def _(rows: Rows) -> Rows:
    return [*rows, on_top(rows[0], None, "genesis-2")]


@spoiled("predecessor-missing")
def _(rows: Rows) -> Rows:
    return [*rows[:6], *rows[7:]]


@spoiled("commit-conflict")
def _(rows: Rows) -> Rows:
    return [*rows[:8], changed(rows[7], "at", value=1), *rows[8:]]


@spoiled("request-twice")
def _(rows: Rows) -> Rows:
    commit = json.loads(rows[-1])
    commit["request"]["id"] = json.loads(rows[2])["request"]["id"]
    return [*rows[:-1], canonical(reseal(commit)) + b"\n"]


@spoiled("torn-line")
def _(rows: Rows) -> Rows:
    return [*rows[:-1], rows[-1][:-1]]


@spoiled("half-a-line")
def _(rows: Rows) -> Rows:
    return [*rows[:-1], rows[-1][: len(rows[-1]) // 2] + b"\n"]


@spoiled("blank-line")
def _(rows: Rows) -> Rows:
    return [*rows[:3], b" \t\n", *rows[3:]]


@spoiled("invalid-utf-8")
def _(rows: Rows) -> Rows:
    return [*rows[:3], rows[3].replace(b"bound", b"b\xffund"), *rows[4:]]


@spoiled("key-twice")
def _(rows: Rows) -> Rows:
    return [rows[0], rows[1].replace(b'"version":3', b'"version":3,"\\u0076ersion":3'), *rows[2:]]


@spoiled("fraction")
def _(rows: Rows) -> Rows:
    return [rows[0], rows[1].replace(b'"version":3', b'"version":3.0'), *rows[2:]]


@spoiled("unknown-field")
def _(rows: Rows) -> Rows:
    return [*rows[:2], changed(rows[2], "operations", 0, "note", value="x"), *rows[3:]]


@spoiled("null-field")
def _(rows: Rows) -> Rows:
    return [*rows[:2], changed(rows[2], "trace", value=None), *rows[3:]]


@spoiled("another-version")
def _(rows: Rows) -> Rows:
    return [*rows[:2], changed(rows[2], "version", value=2), *rows[3:]]


@spoiled("fingerprint")
def _(rows: Rows) -> Rows:
    commit = json.loads(rows[2])
    commit["request"]["fingerprint"] = "0" * 64
    return [*rows[:2], canonical(commit) + b"\n", *rows[3:]]


@spoiled("altered")
def _(rows: Rows) -> Rows:
    was, now = b'"credential_principal":"7"', b'"credential_principal":"8"'
    return [*rows[:2], rows[2].replace(was, now), *rows[3:]]


@spoiled("selection")
def _(rows: Rows) -> Rows:
    """The grant of the two ready nodes, in the other order."""
    commit = json.loads(rows[1])
    one, two = commit["operations"]
    one["work_id"], two["work_id"] = two["work_id"], one["work_id"]
    return [rows[0], canonical(commit) + b"\n", *rows[2:]]


@spoiled("short-selection")
def _(rows: Rows) -> Rows:
    """A grant that leaves out its last winner."""
    commit = json.loads(rows[1])
    commit["operations"].pop()
    return [rows[0], canonical(commit) + b"\n", *rows[2:]]


@spoiled("role")
def _(rows: Rows) -> Rows:
    return [*rows[:2], changed(rows[2], "actor", "role", value="producer"), *rows[3:]]


@spoiled("no-policy")
def _(rows: Rows) -> Rows:
    commit = json.loads(rows[0])
    del commit["operations"][0]
    return [canonical(reseal(commit)) + b"\n"]


@spoiled("lying-checkpoint")
def _(rows: Rows) -> Rows:
    """A checkpoint with one digit of its state changed, its own digest left as it was."""
    chain = Chain([json.loads(row) for row in rows])
    line = chain.compact()
    return [line.replace(b'"attempts":1', b'"attempts":0', 1)]


@spoiled("early-retry")
def _(rows: Rows) -> Rows:
    at = next(n for n, row in enumerate(rows) if b"ClaimCancellation" in row)
    return [*rows[:at], changed(rows[at], "operations", 0, "retry_not_before", value=1)]


@story("refused-retry-exhausted")
def retry_exhausted() -> bytes:
    """The only attempt ends, and its node stays in line."""
    document = make.with_pool(retry=records.Retry(max_attempts=1, backoff_ms=1))
    board = Board([work("a")], document)
    board.grant()
    only = board.cancellations("a")[:1]
    return board.data + line_of(board.make("cancel_claim", only, make.RECONCILER))


@story("refused-child-above-its-parent")
def child_above_its_parent() -> bytes:
    """A worker posts below its node with a better class than the node has."""
    board = Board([work("a")])
    board.grant()
    board.complete("a")
    child = work("child", after=["a"], priority=1)
    return board.data + line_of(board.make("submit", [child], board.worker(board.group("a"))))
