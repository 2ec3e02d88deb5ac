"""Which revision of a worker executes a Work: routes, deployments, what an admission freezes.

A route is kept whole, with the revisions its Policy gave it: `{"current": ref, "revisions": {ref:
{"profile", "available"}}}` by pool and name of the profile. Nothing here looks at the launches,
which keep the profile they were granted with.
"""

from .canon import Doc, Refused, same

# What a revision may change; everything else of a profile is its boundary.
EVOLVING = ("ref", "logical_contract")
BOUNDARY = (
    "workflow",
    "principal",
    "trust_domain",
    "credential_scope",
    "effect_scope",
    "max_claims",
    "share_keys",
)


def routes_of(policy: Doc) -> Doc:
    """The routes a Policy begins with: its own profiles, current and available."""
    made: Doc = {}
    for pool, entry in policy["pools"].items():
        made[pool] = {}
        for name, profile in entry["profiles"].items():
            revision = {"profile": profile, "available": True}
            made[pool][name] = {"current": profile["ref"], "revisions": {profile["ref"]: revision}}
    return made


def route_of(tables: Doc, pool: str, name: str) -> Doc:
    """The route a pool has under a name."""
    if pool not in tables["routes"]:
        raise Refused("pool_unknown", pool)
    if name not in tables["routes"][pool]:
        raise Refused("profile_unknown", name)
    found: Doc = tables["routes"][pool][name]
    return found


def current_profile(route: Doc) -> Doc:
    """The profile that future Work is admitted against."""
    found: Doc = route["revisions"][route["current"]]["profile"]
    return found


def apply_deployment(tables: Doc, op: Doc) -> None:
    """Compare and set what a route offers from now on; nothing admitted or running changes."""
    route = route_of(tables, op["pool"], op["worker_profile"])
    profile, current = op["profile"], current_profile(route)
    expected = (op["expected_ref"], op["expected_contract"])
    if expected != (route["current"], current.get("logical_contract", "")):
        raise Refused("deployment_conflict", "the route has moved on")
    crossed = [name for name in BOUNDARY if not alike(name, profile, current)]
    if crossed:
        raise Refused("deployment_boundary", ", ".join(crossed))
    known = route["revisions"].get(profile["ref"])
    if known is not None and not same(known["profile"], profile):
        raise Refused("deployment_conflict", "a revision never changes")
    if op.get("activate", True):
        current_ref = profile["ref"]
    elif known is None:
        raise Refused("deployment_unregistered", profile["ref"])
    else:
        current_ref = route["current"]
    revision = {"profile": profile, "available": op["available"]}
    changed = {
        "current": current_ref,
        "revisions": {**route["revisions"], profile["ref"]: revision},
    }
    pool = tables["routes"][op["pool"]]
    tables["routes"][op["pool"]] = {**pool, op["worker_profile"]: changed}


def alike(name: str, one: Doc, other: Doc) -> bool:
    """Whether two profiles agree in a field, or both lack it."""
    return same(one.get(name), other.get(name))


def check_route(tables: Doc, op: Doc) -> None:
    """Find the revision a new Work is admitted against, and freeze what it promises."""
    route = route_of(tables, op["pool"], op["worker_profile"])
    ref = op.get("execution_ref", route["current"])
    if ref not in route["revisions"]:
        raise Refused("profile_mismatch", "the pin is no approved revision")
    profile = route["revisions"][ref]["profile"]
    if op["batch_trust_domain"] != profile["trust_domain"]:
        raise Refused("trust_domain_mismatch", op["batch_trust_domain"])
    if "logical_contract" in op and op["logical_contract"] != profile.get("logical_contract"):
        raise Refused("profile_mismatch", "another contract")
    tables["admissions"][op["work_id"]] = frozen(profile)


def frozen(profile: Doc) -> Doc:
    """What an admission keeps of its revision: the contract, or the very revision without one."""
    if "logical_contract" in profile:
        return {"admission_contract": profile["logical_contract"]}
    return {"admission_ref": profile["ref"]}


def execution(tables: Doc, work: Doc) -> Doc:
    """The revision that would execute a Work now: its pin, what it froze, or the current one."""
    route = route_of(tables, work["pool"], work["worker_profile"])
    kept = tables["admissions"][work["work_id"]]
    ref = work.get("execution_ref") or kept.get("admission_ref") or route["current"]
    found: Doc = route["revisions"][ref]
    return found


def blocked_worker(tables: Doc, work: Doc, profiles: list[str] | None) -> str | None:
    """Why no worker may execute this Work; `profiles` are those the caller may launch."""
    if profiles is not None and work["worker_profile"] not in profiles:
        return "worker_unavailable"
    revision = execution(tables, work)
    if not revision["available"]:
        return "worker_unavailable"
    if frozen(revision["profile"]) != tables["admissions"][work["work_id"]]:
        return "worker_incompatible"
    return None


def deployments_document(tables: Doc) -> Doc:
    """The routes that are not what the Policy alone makes them."""
    found: Doc = {}
    for pool, names in routes_of(tables["policy"]).items():
        for name, plain in names.items():
            route = tables["routes"][pool][name]
            if not same(route, plain):
                found.setdefault(pool, {})[name] = route
    return found


def admission_document(tables: Doc, work: Doc) -> Doc:
    """What an unsettled Work froze, where the Policy's own profile would give something else."""
    open_still = work["state"] in ("available", "claimed") or work["barrier"] == "pending"
    if not open_still:
        return {}
    own = tables["policy"]["pools"][work["pool"]]["profiles"][work["worker_profile"]]
    plain, kept = frozen(own), tables["admissions"][work["work_id"]]
    return {name: value for name, value in kept.items() if plain.get(name) != value}
