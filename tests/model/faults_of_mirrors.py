"""Faults in the Issues and comments that mirror Work."""

from .canon import Doc
from .faults import on_actor, on_operation
from .faults_of_operators import STRANGER, by_role
from .model import Board

for _kind in ("issue_link", "issue_comment"):
    for _role in ("reconciler", "administrator"):
        by_role(_kind, _role)


def recorded(op: Doc, board: Board) -> bool:
    """Whether a mirror says again what is on record; which fault counts first is then open."""
    tables = board.tables()
    if op["kind"] == "IssueLink":
        return op["work_id"] in tables["issue_links"]
    return op["comment_id"] in tables["issue_comments"]


def with_mirror(kind: str) -> None:
    """Faults that links and comments share."""

    def unknown(op: Doc, board: Board) -> None:
        op["work_id"] = "0" * 64

    def no_claim(op: Doc, board: Board) -> bool | None:
        if recorded(op, board):
            return False
        op["claim_id"] = "c_none"
        return None

    def revision(op: Doc, board: Board) -> bool | None:
        if recorded(op, board) or not board.tables()["policy"].get("projectors"):
            return False
        op["projector_ref"] = STRANGER
        return None

    on_operation(kind, "of a Work that is not there", "work_unknown")(unknown)
    on_operation(kind, "a Claim that is not there", "claim_unknown")(no_claim)
    on_operation(kind, "a projector of another revision", "not_authorized")(revision)
    fields = ["claim_id"] if kind == "IssueLink" else ["claim_id", "authority_claim_id"]
    for field in fields:
        foreign_claim(kind, field)


def foreign_claim(kind: str, field: str) -> None:
    """A Claim of another Work, named in a mirror."""

    def spoil(op: Doc, board: Board) -> bool | None:
        for claim in board.tables()["claims"].values():
            if claim["work_id"] != op["work_id"] and not recorded(op, board):
                op[field] = claim["claim_id"]
                return None
        return False

    on_operation(kind, f"{field} of another Work", "claim_mismatch")(spoil)


with_mirror("IssueLink")
with_mirror("IssueComment")


def new_mirror(commit: Doc, board: Board) -> bool:
    """A mirror that is not on record, under a Policy that says who may write it."""
    ruled = bool(board.tables()["policy"].get("projectors"))
    return ruled and not any(recorded(op, board) for op in commit["operations"])


for _kind in ("issue_link", "issue_comment"):
    on_actor(_kind, "by another principal", "not_authorized", new_mirror)(
        lambda actor: actor.update(principal="1")
    )
    on_actor(_kind, "from another workflow", "not_authorized", new_mirror)(
        lambda actor: actor.update(workflow=".callboard/other")
    )
    on_actor(_kind, "from no workflow", "not_authorized", new_mirror)(
        lambda actor: [actor.pop(name, None) for name in ("workflow", "run_id", "run_attempt")]
    )


@on_operation("IssueLink", "a pull request")
def _(op: Doc, board: Board) -> None:
    op["resource"] = {**op["resource"], "kind": "pull_request"}


@on_operation("IssueLink", "a repository nobody named", "not_authorized")
def _(op: Doc, board: Board) -> bool | None:
    named = "backing_issue" in board.tables()["works"][op["work_id"]]
    if named or recorded(op, board):
        return False
    op["resource"] = {**op["resource"], "repository": "else/where"}
    return None


@on_operation("IssueLink", "a second Issue for the Work", "issue_link_conflict")
def _(op: Doc, board: Board) -> bool | None:
    tables = board.tables()
    pool = tables["works"][op["work_id"]]["pool"]
    for work_id in tables["issue_links"]:
        if tables["works"][work_id]["pool"] == pool:
            op["work_id"] = work_id
            op["resource"] = {**op["resource"], "resource_id": "424242"}
            op.pop("claim_id", None)
            return None
    return False


@on_operation("IssueLink", "an Issue that mirrors another Work", "issue_link_conflict")
def _(op: Doc, board: Board) -> bool | None:
    links = board.tables()["issue_links"]
    for known in links.values():
        same_place = known["resource"]["repository"] == op["resource"]["repository"]
        if op["work_id"] not in links and same_place:
            op["resource"] = {**known["resource"], "number": "1"}
            return None
    return False


@on_operation("IssueLink", "another Issue than the Work names", "issue_link_conflict")
def _(op: Doc, board: Board) -> bool | None:
    if "backing_issue" not in board.tables()["works"][op["work_id"]]:
        return False
    op["resource"] = {**op["resource"], "resource_id": "424242"}
    return None


@on_operation("IssueComment", "below a Work without a link", "issue_link_missing")
def _(op: Doc, board: Board) -> bool | None:
    tables = board.tables()
    pool = tables["works"][op["work_id"]]["pool"]
    for node in tables["works"].values():
        if node["pool"] == pool and node["work_id"] not in tables["issue_links"]:
            op["work_id"] = node["work_id"]
            op.pop("claim_id", None)
            op.pop("authority_claim_id", None)
            return None
    return False


@on_operation("IssueComment", "a comment of another Work or Claim", "issue_comment_conflict")
def _(op: Doc, board: Board) -> bool | None:
    for comment_id, known in board.tables()["issue_comments"].items():
        place = (known["work_id"], known.get("claim_id"))
        if place != (op["work_id"], op.get("claim_id")):
            op["comment_id"] = comment_id
            return None
    return False


@on_operation("IssueComment", "a second one for the same Claim", "issue_comment_conflict")
def _(op: Doc, board: Board) -> bool | None:
    for known in board.tables()["issue_comments"].values():
        if known["work_id"] == op["work_id"]:
            op["comment_id"] = "424242"
            op.pop("claim_id", None)
            op.update({name: known[name] for name in ("claim_id",) if name in known})
            return None
    return False


@on_operation("IssueComment", "a comment that is no decimal")
def _(op: Doc, board: Board) -> None:
    op["comment_id"] = "IC_1"
