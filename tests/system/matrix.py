"""The fault matrix: what each fault at each step of a dispatch must come to, written down.

A row is one class of cells: a fault, the steps at which it comes to the same, and all that is
expected then. Nothing here is computed by the code under test; the values follow from the recovery
tables of docs/internals/execution.md and docs/how-to/recover-after-a-crash.md. Pairs that do not
exist stand in `EXCLUDED` with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

FAULTS = (
    "dispatcher", "supervisor", "worker", "reconciler", "publisher", "publisher_refused",
    "disk_full", "read_only", "clock_back", "registry_gone", "branch_deleted", "second",
)  # fmt: skip
"""What goes wrong; see the plays of the same names. The publisher is whoever appends to the board:
once the answer to its append is lost, once the append is refused for good."""

STEPS = (
    "grant", "start", "prepare", "spawn", "take", "bind", "execute", "prepare_outputs", "finish",
    "publish_outputs", "read_back", "end", "release", "remove_clone",
)  # fmt: skip
"""The steps of docs/internals/execution.md. A fault strikes where the step is about to be made,
so "grant appended" is what `start` begins with, "marker appended" `prepare`, "before send" `spawn`,
and so on."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a node has come: on the board, by the places it takes, and in what is shown.

    `statuses`: column, reason and stage as `status` says them; `explain` says the same stage. Where
    only the time of the look decides there are several.
    """

    board: str
    places: int
    statuses: tuple[str, ...]


#                    dispatch Claim barrier       places  column reason stage
UNGRANTED = Standing("- - none", 0, ("ready ready ready",))
GRANTED = Standing("reserved open none", 1, ("running granted granted",))
STARTED = Standing("started open none", 1, ("running launching started",))
BOUND = Standing("bound open none", 1, ("running running bound",))
# The board does not know yet that nobody watches over the run, and this machine does.
UNWATCHED = Standing("bound open none", 1, ("running running terminal",))
COMPLETED = Standing("bound completed pending", 1, ("running verifying completed_pending",))
VERIFIED = Standing("bound completed verified", 1, ("done verified verified",))
UNDELIVERED = Standing("released completed pending", 0, ("running verifying completed_pending",))
OVER = Standing("released completed verified", 0, ("done verified verified",))
# The pause before the next attempt is a second, which may be over.
AGAIN = Standing(
    "released cancelled none", 0, ("waiting retry_delayed waiting", "ready ready ready")
)
GONE = Standing("absent", 0, ("refused ledger_invalid",))

NO_ROOM = "storage_failed|registry_unusable"
"""Either code; among what was `said` also neither."""

RECONCILE = "callboard reconcile"
UNLOCK = "if no Git process is running, delete"
MAKE_ROOM = "free space or repair the disk|check the folder, its file system and the free space"
GIVE_ACCESS = "give this user access to the repository"
SET_BACK = "set it back: git branch work-queue"


@dataclass(frozen=True, slots=True)
class Row:
    """One class of cells.

    `living`: supervisors and workers that run, and workers executed so far. `said`: the codes with
    which the dispatch's processes ended. `found`: what `reconcile` finds, and whose turn it is.
    `hints`: how each instruction to the reader begins; `|` stands between alternatives. `attempts`
    and `executions`: what the node needed in the end, after those were followed and `run` called.
    """

    fault: str
    steps: str
    standing: Standing
    living: str
    said: str
    found: str
    hints: tuple[str, ...]
    attempts: int
    executions: int


ROWS = (
    # The steps of a dispatcher are gone on with from the board; a marker without a run is ruled
    # out, and costs an attempt. A supervisor does not need its dispatcher.
    Row("dispatcher", "grant", UNGRANTED, "0 0 0", "", "", (), 1, 1),
    Row("dispatcher", "start", GRANTED, "0 0 0", "", "launched time", (), 1, 1),
    Row("dispatcher", "prepare spawn", STARTED, "0 0 0", "", "released settled", (), 2, 1),
    Row("dispatcher", "take", STARTED, "1 0 0", "", "launch_pending time", (), 1, 1),
    Row("dispatcher", "bind", STARTED, "1 0 0", "", "running time", (), 1, 1),
    Row("dispatcher", "execute", BOUND, "1 1 1", "", "running time", (), 1, 1),
    Row("dispatcher", "prepare_outputs finish", BOUND, "1 0 1", "", "running time", (), 1, 1),
    Row(
        "dispatcher", "publish_outputs read_back", COMPLETED, "1 0 1", "",
        "running time, verified settled", (), 1, 1,
    ),
    Row("dispatcher", "end", VERIFIED, "1 0 1", "", "running time", (), 1, 1),
    Row("dispatcher", "release", VERIFIED, "1 0 1", "", "released settled", (), 1, 1),
    Row("dispatcher", "remove_clone", OVER, "1 0 1", "", "", (), 1, 1),
    # Before the completion the attempt is lost with its supervisor, after it only the rest is made
    # up for, and the worker is not executed again.
    Row("supervisor", "take bind", STARTED, "0 0 0", "", "released settled", (), 2, 1),
    Row(
        "supervisor", "execute prepare_outputs finish", UNWATCHED, "0 0 1", "",
        "released settled", (RECONCILE,), 2, 2,
    ),
    Row(
        "supervisor", "publish_outputs read_back", COMPLETED, "0 0 1", "",
        "released settled, verified settled", (), 1, 1,
    ),
    Row("supervisor", "end release", VERIFIED, "0 0 1", "", "released settled", (), 1, 1),
    Row("supervisor", "remove_clone", OVER, "0 0 1", "", "", (), 1, 1),
    Row("worker", "execute", AGAIN, "0 0 1", "", "", (), 2, 2),
    # The step's process was killed, and then the reconciler that made up for it after its first
    # append: the marker, the release, the binding.
    Row("reconciler", "start", STARTED, "0 0 0", "", "released settled", (), 2, 1),
    Row("reconciler", "prepare spawn take", AGAIN, "0 0 0", "", "", (), 2, 1),
    Row("reconciler", "bind", UNWATCHED, "0 0 0", "", "released settled", (RECONCILE,), 2, 1),
    Row("reconciler", "execute prepare_outputs finish", AGAIN, "0 0 1", "", "", (), 2, 2),
    Row(
        "reconciler", "publish_outputs read_back", UNDELIVERED, "0 0 1", "",
        "verified settled", (), 1, 1,
    ),
    Row("reconciler", "end release", OVER, "0 0 1", "", "", (), 1, 1),
    # An append whose answer is lost is found again by its request id, and made once.
    Row("publisher", "grant start bind finish read_back release", OVER, "0 0 1", "", "", (), 1, 1),
    # Nothing can be written to the board: it stays as it is, and says what is in the way. A run
    # that is not bound yet waits with its binding, one whose worker has done its work with that.
    Row("publisher_refused", "grant", UNGRANTED, "0 0 0", "ref_locked", "", (), 1, 1),
    Row(
        "publisher_refused", "start", GRANTED, "0 0 0", "ref_locked",
        "refused ref_locked", (UNLOCK,), 1, 1,
    ),
    Row(
        "publisher_refused", "prepare spawn take bind", STARTED, "1 0 0", "ref_locked",
        "refused ref_locked", (UNLOCK,), 1, 1,
    ),
    Row(
        "publisher_refused", "execute prepare_outputs finish", BOUND, "1 0 1", "ref_locked",
        "running time", ("ref_locked: ",), 1, 1,
    ),
    Row(
        "publisher_refused", "publish_outputs read_back", COMPLETED, "0 0 1", "ref_locked",
        "refused ref_locked", (UNLOCK,), 1, 1,
    ),
    Row(
        "publisher_refused", "end release", VERIFIED, "0 0 1", "ref_locked",
        "refused ref_locked", (UNLOCK,), 1, 1,
    ),
    Row("publisher_refused", "remove_clone", OVER, "0 0 1", "", "", (), 1, 1),
    # Whether repository or registry meets the full disk first is all the same, and so is whether
    # the supervisor's log, which lies there too, could take the last words.
    Row("disk_full", "grant", UNGRANTED, "0 0 0", NO_ROOM, "", (), 1, 1),
    Row("disk_full", "start", GRANTED, "0 0 0", NO_ROOM, f"refused {NO_ROOM}", (MAKE_ROOM,), 1, 1),
    Row(
        "disk_full", "prepare spawn take", STARTED, "0 0 0", NO_ROOM,
        f"refused {NO_ROOM}", (MAKE_ROOM,), 2, 1,
    ),
    Row(
        "disk_full", "bind", STARTED, "1 0 0", NO_ROOM, f"refused {NO_ROOM}", (MAKE_ROOM,), 1, 1,
    ),
    # A worker that meets it itself fails; what one has done waits until it can be stored.
    Row("disk_full", "execute", BOUND, "1 0 1", NO_ROOM, "running time", (), 2, 2),
    Row("disk_full", "prepare_outputs finish", BOUND, "1 0 1", NO_ROOM, "running time", (), 1, 1),
    Row(
        "disk_full", "publish_outputs read_back", COMPLETED, "0 0 1", NO_ROOM,
        f"refused {NO_ROOM}", (MAKE_ROOM,), 1, 1,
    ),
    Row(
        "disk_full", "end release", VERIFIED, "0 0 1", NO_ROOM,
        f"refused {NO_ROOM}", (MAKE_ROOM,), 1, 1,
    ),
    Row("disk_full", "remove_clone", OVER, "0 0 1", NO_ROOM, "", (), 1, 1),
    Row("read_only", "grant", UNGRANTED, "0 0 0", "repository_unwritable", "", (), 1, 1),
    Row(
        "read_only", "start", GRANTED, "0 0 0", "repository_unwritable",
        "refused repository_unwritable", (GIVE_ACCESS,), 1, 1,
    ),
    Row(
        "read_only", "prepare spawn take bind", STARTED, "1 0 0", "repository_unwritable",
        "refused repository_unwritable", (GIVE_ACCESS,), 1, 1,
    ),
    Row(
        "read_only", "execute", BOUND, "1 0 1", "repository_unwritable",
        "running time", ("repository_unwritable: ",), 2, 2,
    ),
    Row(
        "read_only", "prepare_outputs finish", BOUND, "1 0 1", "repository_unwritable",
        "running time", ("repository_unwritable: ",), 1, 1,
    ),
    Row(
        "read_only", "publish_outputs read_back", COMPLETED, "0 0 1", "repository_unwritable",
        "refused repository_unwritable", (GIVE_ACCESS,), 1, 1,
    ),
    Row(
        "read_only", "end release", VERIFIED, "0 0 1", "repository_unwritable",
        "refused repository_unwritable", (GIVE_ACCESS,), 1, 1,
    ),
    Row("read_only", "remove_clone", OVER, "0 0 1", "", "", (), 1, 1),
    # Nothing is decided by the clock of one machine while a run goes its way.
    Row("clock_back", " ".join(STEPS), OVER, "0 0 1", "", "", (), 1, 1),
    # Who has opened the record goes on with it. Who comes later knows of nothing, and concludes
    # nothing from that: the place stays taken until the record is back.
    Row("registry_gone", "grant", OVER, "0 0 1", "", "", (), 1, 1),
    Row(
        "registry_gone", "start prepare spawn take", STARTED, "0 0 0", "",
        "launch_uncertain time", (), 2, 1,
    ),
    Row(
        "registry_gone", "bind execute prepare_outputs finish publish_outputs read_back end "
        "release remove_clone", OVER, "0 0 1", "", "", (), 1, 1,
    ),
    # Nobody begins a new board in the place of the one that is gone.
    Row(
        "branch_deleted", "grant start", GONE, "0 0 0", "ledger_invalid",
        "refused ledger_invalid", (SET_BACK,), 1, 1,
    ),
    Row(
        "branch_deleted", "prepare spawn take bind", GONE, "1 0 0", "ledger_invalid",
        "refused ledger_invalid", (SET_BACK,), 1, 1,
    ),
    Row(
        "branch_deleted", "execute prepare_outputs finish", GONE, "1 0 1", "ledger_invalid",
        "refused ledger_invalid", (SET_BACK,), 1, 1,
    ),
    Row(
        "branch_deleted", "publish_outputs read_back end release", GONE, "0 0 1", "ledger_invalid",
        "refused ledger_invalid", (SET_BACK,), 1, 1,
    ),
    Row(
        "branch_deleted", "remove_clone", GONE, "0 0 1", "",
        "refused ledger_invalid", (SET_BACK,), 1, 1,
    ),
    # It may grant what is not granted, and start what is not started; a marker is another's.
    Row("second", "grant", OVER, "0 0 1", "", "", (), 1, 1),
    Row("second", "start", GRANTED, "0 0 0", "", "launched time", (), 1, 1),
    Row("second", "prepare spawn", STARTED, "0 0 0", "", "launch_pending time", (), 1, 1),
    Row("second", "take", STARTED, "1 0 0", "", "launch_pending time", (), 1, 1),
    Row("second", "bind", STARTED, "1 0 0", "", "running time", (), 1, 1),
    Row("second", "execute", BOUND, "1 1 1", "", "running time", (), 1, 1),
    Row("second", "prepare_outputs finish", BOUND, "1 0 1", "", "running time", (), 1, 1),
    Row(
        "second", "publish_outputs read_back", COMPLETED, "1 0 1", "",
        "running time, verified settled", (), 1, 1,
    ),
    Row("second", "end", VERIFIED, "1 0 1", "", "running time", (), 1, 1),
    Row("second", "release", VERIFIED, "1 0 1", "", "released settled", (), 1, 1),
    Row("second", "remove_clone", OVER, "1 0 1", "", "", (), 1, 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Pairs that cannot happen, and why; each reason is held to by a test."""

    fault: str
    steps: str
    reason: str


EXCLUDED = (
    Exclusion("supervisor", "grant start prepare spawn", "there is none before it is spawned"),
    Exclusion("worker", "grant start prepare spawn take bind", "there is none before the binding"),
    Exclusion(
        "worker", "prepare_outputs finish publish_outputs read_back end release remove_clone",
        "it has ended before its outputs are looked at",
    ),
    Exclusion("reconciler", "grant", "nothing is open yet, so it writes nothing"),
    Exclusion("reconciler", "remove_clone", "nothing is open any more, so it writes nothing"),
    Exclusion(
        "publisher", "prepare spawn take execute prepare_outputs publish_outputs end remove_clone",
        "the step appends nothing, so there is no answer to lose",
    ),
)  # fmt: skip

SAMPLE = {
    "dispatcher": "spawn take",
    "supervisor": "read_back",
    "worker": "execute",
    "reconciler": "publish_outputs",
    "publisher": "grant",
    "publisher_refused": "start",
    "disk_full": "finish",
    "read_only": "prepare_outputs",
    "clock_back": "end",
    "registry_gone": "release",
    "branch_deleted": "bind remove_clone",
    "second": "prepare",
}
"""What the ordinary suite looks at: each fault and each step at least once."""
