"""Issues that mirror Work: who may tie one to a Work, and which comments were written there.

Links and comments are records only. Nothing here touches ownership, order or results.
"""

from .canon import Doc, Refused, canonical, same


def apply_issue_link(tables: Doc, actor: Doc, commit_id: str, op: Doc) -> None:
    """Tie a Work to its Issue, once and for good."""
    if op["resource"]["kind"] != "issue":
        raise Refused("schema_invalid", "a mirror is an issue")
    work = work_of(tables, op)
    check_projector(tables, actor, op, work, op["resource"])
    check_claims(tables, op)
    known = tables["issue_links"].get(op["work_id"])
    if known is not None:
        if same(said(op), {**without_commit(known), "work_id": op["work_id"]}):
            return
        raise Refused("issue_link_conflict", "the Work has another link")
    if "backing_issue" in work and not same(work["backing_issue"], op["resource"]):
        raise Refused("issue_link_conflict", "the Work names its Issue itself")
    for other in tables["issue_links"].values():
        if identity_of(other["resource"]) == identity_of(op["resource"]):
            raise Refused("issue_link_conflict", "the Issue mirrors another Work")
    tables["issue_links"][op["work_id"]] = {
        name: value for name, value in said(op).items() if name != "work_id"
    } | {"commit_id": commit_id}


def apply_issue_comment(tables: Doc, actor: Doc, commit_id: str, op: Doc) -> None:
    """Record a comment on the Issue of a Work, for the Work as a whole or for one of its Claims."""
    work = work_of(tables, op)
    link = tables["issue_links"].get(op["work_id"])
    if link is None:
        raise Refused("issue_link_missing", op["work_id"])
    check_projector(tables, actor, op, work, link["resource"])
    check_claims(tables, op)
    for comment_id, known in tables["issue_comments"].items():
        whole = {**without_commit(known), "comment_id": comment_id}
        if same(said(op), whole):
            return
        same_place = known["work_id"] == op["work_id"] and known.get("claim_id") == op.get(
            "claim_id"
        )
        if comment_id == op["comment_id"] or same_place:
            raise Refused("issue_comment_conflict", comment_id)
    tables["issue_comments"][op["comment_id"]] = {
        name: value for name, value in said(op).items() if name != "comment_id"
    } | {"commit_id": commit_id}


def said(op: Doc) -> Doc:
    """What an operation says, without the tag."""
    return {name: value for name, value in op.items() if name != "kind"}


def without_commit(known: Doc) -> Doc:
    """A record without the name of the commit that brought it."""
    return {name: value for name, value in known.items() if name != "commit_id"}


def work_of(tables: Doc, op: Doc) -> Doc:
    """The Work that is mirrored."""
    if op["work_id"] not in tables["works"]:
        raise Refused("work_unknown", op["work_id"])
    found: Doc = tables["works"][op["work_id"]]
    return found


def check_claims(tables: Doc, op: Doc) -> None:
    """The Claims a record names are Claims of its Work, open or not."""
    for name in ("claim_id", "authority_claim_id"):
        if name not in op:
            continue
        claim = tables["claims"].get(op[name])
        if claim is None:
            raise Refused("claim_unknown", op[name])
        if claim["work_id"] != op["work_id"]:
            raise Refused("claim_mismatch", op[name])


def check_projector(tables: Doc, actor: Doc, op: Doc, work: Doc, resource: Doc) -> None:
    """Whether this actor may mirror that Work there: a rule that says so, or its own repository."""
    policy = tables["policy"]
    given = policy.get("projectors") or []
    entries = list(given.values()) if isinstance(given, dict) else given
    if not entries:
        if "authorization" in policy and resource["repository"] == tables["repository"]:
            return
        raise Refused("not_authorized", resource["repository"])
    for entry in entries:
        who = (entry["principal"], entry["workflow"], entry["ref"])
        if who != (actor["principal"], actor.get("workflow"), op["projector_ref"]):
            continue
        if work["pool"] in entry["pools"] and resource["repository"] in entry["repositories"]:
            return
    raise Refused("not_authorized", actor["principal"])


def identity_of(resource: Doc) -> bytes:
    """What makes two resources the same one; names and numbers on display do not count."""
    names = ("kind", "host", "repository_id", "resource_id")
    return canonical([resource[name] for name in names])


def mirrors_document(tables: Doc) -> Doc:
    """Links and comments, each table only when it holds something."""
    return {name: tables[name] for name in ("issue_links", "issue_comments") if tables[name]}
