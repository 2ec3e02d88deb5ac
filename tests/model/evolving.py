"""The part of a random history that operators and projectors write.

Workers get new revisions, go and come back; waiting Work changes its class; Issues mirror Work.
"""

from .canon import Doc
from .priorities import effective
from .proposing import Proposing
from .routes import current_profile
from .writing import OTHER_REPOSITORY, REPOSITORY, hexes, person, projector, running


class Evolving(Proposing):
    """What a story changes around Work that is under way."""

    def deploy(self) -> bool:
        """Change what one or two routes offer."""
        rng, routes = self.rng, dict(self.board.tables()["routes"])
        operations: list[Doc] = []
        for _ in range(rng.choice([1, 1, 1, 2])):
            pool = rng.choice(list(routes))
            name = rng.choice(list(routes[pool]))
            if operations and rng.random() < 0.5:
                pool, name = operations[0]["pool"], operations[0]["worker_profile"]
            op = self.deployment(pool, name, routes[pool][name])
            known = routes[pool][name]["revisions"]
            revision = {"profile": op["profile"], "available": op["available"]}
            route = {**routes[pool][name], "revisions": {**known, op["profile"]["ref"]: revision}}
            if op.get("activate", True):
                route["current"] = op["profile"]["ref"]
            routes[pool] = {**routes[pool], name: route}
            operations.append(op)
        actor = rng.choice(
            [
                person("administrator", "900"),
                person("producer", "101"),
                running("dispatcher", "201", "42", ".callboard/dispatch"),
            ]
        )
        return self.publish("deployment", actor, operations, self.moment())

    def deployment(self, pool: str, name: str, route: Doc) -> Doc:
        """One change of a route: a new revision, a known one again, or whether one is there."""
        rng, current = self.rng, current_profile(route)
        op: Doc = {
            "kind": "Deployment",
            "pool": pool,
            "worker_profile": name,
            "expected_ref": route["current"],
            "expected_contract": current.get("logical_contract", ""),
            "available": rng.random() < 0.85,
            "reason": rng.choice(["worker.updated", "host_check", "rollback"]),
        }
        known = [entry["profile"] for entry in route["revisions"].values()]
        change = rng.choice(["compatible", "compatible", "other", "known", "known", "flag", "flag"])
        if change == "compatible":
            op["profile"] = {**current, "ref": hexes(rng, 40)}
        elif change == "other":
            op["profile"] = self.incompatible({**current, "ref": hexes(rng, 64)}, known)
        elif change == "known":
            op["profile"] = rng.choice(known)
        else:
            op["profile"] = rng.choice([current, *known])
            op["activate"] = False
            op["available"] = not route["revisions"][op["profile"]["ref"]]["available"]
        if "activate" not in op and rng.random() < 0.2:
            op["activate"] = True
        return op

    def incompatible(self, profile: Doc, known: list[Doc]) -> Doc:
        """The profile with another contract: a new one, an older one, or none."""
        made = dict(profile)
        older = [other["logical_contract"] for other in known if "logical_contract" in other]
        luck = self.rng.random()
        if luck < 0.35:
            made.pop("logical_contract", None)
        elif luck < 0.6 and older:
            made["logical_contract"] = self.rng.choice(older)
        else:
            made["logical_contract"] = hexes(self.rng, 64)
        return made

    def reprioritise(self) -> bool:
        """Set the class of Work that waits, one or a few at once."""
        rng, tables = self.rng, self.board.tables()
        found = [w for w in tables["works"].values() if w["state"] == "available"]
        if not found:
            return False
        operations = []
        for node in rng.sample(found, min(len(found), rng.choice([1, 1, 2]))):
            level = rng.choice([1, 1, 2, 3, 4, 5, node["priority"]])
            op = {
                "kind": "WorkPriority",
                "work_id": node["work_id"],
                "priority": level,
                "expected_priority": effective(tables, node),
                "reason": "operator.request",
            }
            operations.append(op)
        return self.publish("priority", person("administrator", "900"), operations, self.moment())

    # Mirrors

    def claims_named(self, work_id: str, field: str) -> Doc:
        """A Claim of a Work under a field, or nothing."""
        claims = self.board.tables()["claims"].values()
        found = [claim["claim_id"] for claim in claims if claim["work_id"] == work_id]
        if not found or self.rng.random() < 0.5:
            return {}
        return {field: self.rng.choice(found)}

    def rules(self, pool: str) -> list[Doc] | None:
        """The rules that reach a pool; None where anybody may mirror the board's repository."""
        given = self.policy.get("projectors") or []
        entries = list(given.values()) if isinstance(given, dict) else given
        if entries or "authorization" not in self.policy:
            return [entry for entry in entries if pool in entry["pools"]]
        return None

    def link(self) -> bool:
        """Tie a Work to an Issue; now and then say again what is on record."""
        rng, tables = self.rng, self.board.tables()
        node = rng.choice(list(tables["works"].values()))
        known = tables["issue_links"].get(node["work_id"])
        rules = self.rules(node["pool"])
        if known is not None and rng.random() < 0.7:
            return False
        resource = self.mirror(rng.choice([REPOSITORY, OTHER_REPOSITORY]))
        resource = node.get("backing_issue", resource)
        if known is not None:
            resource = known["resource"]
        chosen = self.allowed(rules, resource["repository"], known)
        if chosen is None:
            return False
        actor, ref = chosen
        op = {"kind": "IssueLink", "work_id": node["work_id"], "resource": resource}
        op["projector_ref"] = ref
        op.update(self.claims_named(node["work_id"], "claim_id"))
        if known is not None:
            op.pop("claim_id", None)
            op.update({name: known[name] for name in ("claim_id",) if name in known})
        return self.publish("issue_link", actor, [op], self.moment())

    def allowed(
        self, rules: list[Doc] | None, repository: str, known: Doc | None
    ) -> tuple[Doc, str] | None:
        """Somebody who may mirror there and the revision to name, the recorded one if any."""
        if rules is None:
            if repository != REPOSITORY:
                return None
            ref = known["projector_ref"] if known else self.rng.choice(["e" * 40, "d" * 40])
            return person("projector", str(self.rng.randint(400, 403))), ref
        for entry in rules:
            fits = known is None or known["projector_ref"] == entry["ref"]
            if repository in entry["repositories"] and fits:
                return projector(entry), entry["ref"]
        return None

    def comment(self) -> bool:
        """Record a comment below an Issue; now and then say again what is on record."""
        rng, tables = self.rng, self.board.tables()
        if not tables["issue_links"]:
            return False
        work_id, link = rng.choice(list(tables["issue_links"].items()))
        node = tables["works"][work_id]
        op: Doc = {"kind": "IssueComment", "work_id": work_id, "comment_id": self.name("5")}
        op.update(self.claims_named(work_id, "claim_id"))
        op.update(self.claims_named(work_id, "authority_claim_id"))
        known = None
        for comment_id, old in tables["issue_comments"].items():
            if old["work_id"] == work_id and old.get("claim_id") == op.get("claim_id"):
                known, op = old, {"kind": "IssueComment", "comment_id": comment_id, **old}
                del op["commit_id"]
        chosen = self.allowed(self.rules(node["pool"]), link["resource"]["repository"], known)
        if chosen is None:
            return False
        actor, op["projector_ref"] = chosen
        return self.publish("issue_comment", actor, [op], self.moment())
