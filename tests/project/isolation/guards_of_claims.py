"""The guards of conditions 9 to 15: who holds what, and for how long."""

from __future__ import annotations

from tests.project.isolation.guard import EARLIER, FIRST, Guard, early, followed, guard, preceded
from tests.project.patched import Change

_OPEN_CLAIMS = "queries.open_claims(scope)"
REPAIR = '    closed = close(unit, claim, "expired", {'
HELD = '        if held.state == "active":\n            raise _held(held, session)\n'
_STALE = early(
    _OPEN_CLAIMS,
    "work",
    ("held = queries.claim_on(unit, session.work)", f"held = {EARLIER}(session.work)"),
)

# The second guard behind those above: whoever changes a claim looks that it is the active one.
_ANY_ROW = (
    ('{"id": claim.id, "state": "active"}, **values) != 1:', '{"id": claim.id}, **values) < 1:'),
)
# And the one behind all: the database takes no second active claim on a work.
_TWO_ROWS = (
    '        ["tenant", "project", "work"],\n        unique=True,',
    '        ["tenant", "project", "work"],\n        unique=False,',
)

CLAIMS: dict[str, Guard] = {
    # --- 9: one claim -----------------------------------------------------------------------------
    "a live claim is respected": guard(
        (
            "test_a_second_one_is_refused_on_any_branch",
            "test_the_same_work_on_one_only_and_different_work_on_both",
            "test_it_is_over_at_its_deadline_and_not_before",
            "test_none_never_ends",
            "test_a_renewal_by_its_holder_keeps_others_off",
            "test_a_ttl_over_a_lapsed_one_asks_anew",
            "test_who_refreshes_still_meets_the_claim",
        ),
        (HELD, ""),
    ),
    "one active row a work": guard(
        "test_the_database_itself_has_room_for_one",
        _TWO_ROWS,
    ),
    "a claim is on one work": guard(
        (
            "test_different_work_is_taken_by_all_at_once",
            "test_the_same_work_on_one_only_and_different_work_on_both",
        ),
        (
            "held = queries.claim_on(unit, session.work)",
            "held = next(iter(queries.open_claims(unit)), None)",
        ),
    ),
    # --- 10: the expected revision ----------------------------------------------------------------
    "the expected revision": guard(
        (
            "test_a_stale_revision_changes_nothing",
            "test_it_needs_the_revision_and_a_reason",
            "test_of_repairs_at_once_one_comes_through",
        ),
        Change(
            "    if expected is not None and expected != actual:",
            "    if False and expected is not None:",
            "store.py",
        ),
    ),
    "the revision is compared inside": guard(
        (
            "test_of_those_who_saw_the_same_revision_one_goes_on",
            "test_who_refreshes_still_meets_the_claim",
            "test_of_repairs_at_once_one_comes_through",
        ),
        followed(
            FIRST,
            "        seen = self.read(lambda scope: scope.revision)",
            "        _check_revision(order.expected_revision, seen)",
            "        order = Order(order.operation, order.intent, None, order.request_id)",
        ),
    ),
    # --- 11: times to live ------------------------------------------------------------------------
    "times to live": guard(
        (
            "test_a_wrong_one_leaves_neither_session_nor_claim[zero]",
            "test_a_wrong_one_leaves_neither_session_nor_claim[negative]",
            "test_a_wrong_one_leaves_neither_session_nor_claim[true]",
            "test_a_wrong_one_leaves_neither_session_nor_claim[fraction]",
        ),
        (
            "    if type(value) is not int or not 1 <= value <= MAX_SAFE_INTEGER:",
            "    if not isinstance(value, (int, float)):",
        ),
    ),
    "the last time there is": guard(
        "test_a_wrong_one_leaves_neither_session_nor_claim[overflowing]",
        ("    if now_ms + ttl_ms > MAX_SAFE_INTEGER:", "    if False:"),
    ),
    "the last time itself belongs to it": guard(
        "test_the_last_possible_end_is_taken",
        (
            "    if now_ms + ttl_ms > MAX_SAFE_INTEGER:",
            "    if now_ms + ttl_ms >= MAX_SAFE_INTEGER:",
        ),
    ),
    "a time to live is of a claim": guard(
        "test_one_without_a_claim_is_refused",
        ("    if found is not None and not claim:", "    if False:"),
    ),
    "no time to live, no end": guard(
        "test_none_never_ends",
        (
            "    if ttl_ms is None:\n        return None\n",
            "    if ttl_ms is None:\n        ttl_ms = 3_600_000\n",
        ),
    ),
    "the end belongs to it": guard(
        "test_it_is_over_at_its_deadline_and_not_before",
        (" is not None and now_ms >= ", " is not None and now_ms > "),
    ),
    "time never goes back": guard(
        "test_a_clock_set_back_neither_revives_nor_extends",
        (", int(row.clock_ms))", ", 0)"),
    ),
    "the time is the database's": guard(
        "test_a_process_whose_clock_is_wrong_changes_nothing",
        (
            "    now_ms: Now = sqlite_file.now_ms\n",
            "    now_ms: Now = lambda _: __import__('time').time_ns() // 1_000_000\n",
        ),
    ),
    "a renewal is written": guard(
        (
            "test_a_renewal_by_its_holder_keeps_others_off",
            "test_it_is_over_at_its_deadline_and_not_before",
            "test_a_renewal_that_came_first_wins",
        ),
        ("    _write(unit, held, expires_at_ms=expires_at_ms)\n", ""),
    ),
    "a renewal is of one claim": guard(
        "test_a_short_lease_beside_a_long_one",
        (
            '{"id": claim.id, "state": "active"}, **values) != 1:',
            '{"state": "active"}, **values) < 1:',
        ),
    ),
    # --- 12: takeover -----------------------------------------------------------------------------
    "a takeover tells of the old one": guard(
        "test_the_lapsed_one_and_the_new_owner_are_told_together",
        ('        over = {"took_over": _identity(held)}', "        over = {}"),
    ),
    "a takeover ends the old one": guard(
        (
            "test_the_lapsed_one_and_the_new_owner_are_told_together",
            "test_starting_with_a_claim_takes_over_too",
            "test_of_many_processes_one_takes_over",
        ),
        (
            '        close(unit, held, "expired")\n',
            '        _write(unit, held, state="expired", released_at_ms=unit.now_ms)\n',
        ),
    ),
    "the live claim is looked for inside": guard(
        (
            "test_of_many_processes_one_has_it",
            "test_of_many_processes_one_takes_over",
            "test_processes_on_two_branches",
        ),
        *_STALE,
        *_ANY_ROW,
        _TWO_ROWS,
        says=" == 1",
    ),
    # --- 13: repair -------------------------------------------------------------------------------
    "the repair looks": guard(
        (
            "test_what_has_not_lapsed_is_refused",
            "test_a_renewal_that_came_first_wins",
            "test_a_repair_after_a_takeover_finds_it_ended",
        ),
        ('    if claim.state != "expired" or claim.released_at_ms is not None:', "    if False:"),
        *_ANY_ROW,
    ),
    "the repair looks inside": guard(
        (
            "test_a_renewal_that_came_first_wins",
            "test_a_repair_after_a_takeover_finds_it_ended",
        ),
        *early(
            _OPEN_CLAIMS,
            "id",
            (
                "    claim = lookup.claim(unit, claim_id)\n",
                f"    claim = {EARLIER}(claim_id) or lookup.claim(unit, claim_id)\n",
            ),
            *_ANY_ROW,
        ),
    ),
    "the repair needs a revision": guard(
        "test_it_needs_the_revision_and_a_reason",
        Change("    if revision is None:", "    if False:", "groups/doctor.py"),
    ),
    "the repair needs a reason": guard(
        "test_it_needs_the_revision_and_a_reason",
        Change(
            'names.text(reason, "reason", limit=MAX_REASON)',
            "str(reason)",
            "groups/doctor.py",
            times=0,
        ),
    ),
    "the repair tells the reason": guard(
        "test_a_lapsed_claim_is_marked_and_nothing_else",
        ('{"reason": reason, "repaired": True}', '{"repaired": True}'),
    ),
    "the repair ends no session": guard(
        "test_a_lapsed_claim_is_marked_and_nothing_else",
        preceded(
            REPAIR,
            '    ended = {"state": "ended", "ended_at_ms": unit.now_ms}',
            '    unit.change(schema.sessions, {"id": claim.session}, **ended)',
        ),
    ),
    "the repair is of one claim": guard(
        "test_a_lapsed_claim_is_marked_and_nothing_else",
        preceded(
            REPAIR,
            "    for other in queries.open_claims(unit):",
            '        if other.state == "expired" and other.id != claim.id:',
            '            close(unit, other, "expired")',
        ),
    ),
    "the repair ends the claim": guard(
        "test_a_takeover_after_a_repair_takes_what_is_free",
        # It tells that it did, and leaves it as it was.
        (
            f'{REPAIR}"reason": reason, "repaired": True}})',
            "    closed = claim\n    _tell(unit, 'claim.expired', closed, {'reason': reason})",
        ),
    ),
    "whoever ends a claim tells so": guard(
        (
            "test_a_repair_and_a_takeover_at_once_end_it_once",
            "test_of_repairs_at_once_one_comes_through",
            "test_a_release_and_the_end_of_its_session_let_go_once",
        ),
        # It tells of something else instead, as an answer needs an event.
        (
            '    _tell(unit, f"claim.{state}", closed, more or {})\n',
            '    _tell(unit, "claim.renewed", closed, more or {})\n',
        ),
    ),
    # --- 14: one's own claims ---------------------------------------------------------------------
    "the holder": guard(
        "test_another_session_cannot_release_or_renew_it",
        (
            'if held is not None and held.session == session.id and held.state == "active":',
            'if held is not None and held.state == "active":',
        ),
    ),
    "a lapsed holder is none": guard(
        "test_nobody_releases_a_lapsed_one",
        (
            'if held is not None and held.session == session.id and held.state == "active":',
            "if held is not None and held.session == session.id:",
        ),
    ),
    "the holder is looked for inside": guard(
        (
            "test_processes_that_release_at_once_release_once",
            "test_a_release_and_the_end_of_its_session_let_go_once[end]",
        ),
        *early(
            _OPEN_CLAIMS,
            "work",
            (
                "held = queries.claim_on(scope, session.work)",
                f"held = {EARLIER}(session.work)",
            ),
            *_ANY_ROW,
        ),
    ),
    "a session ends its own claims": guard(
        (
            "test_the_end_of_a_session_touches_only_its_own",
            "test_the_end_of_who_lost_it_leaves_the_new_owner_alone",
        ),
        (
            "        for claim in queries.claims_of(unit, session.id)\n",
            "        for claim in queries.open_claims(unit)\n",
        ),
    ),
    "an end says how the claim ended": guard(
        "test_an_end_tells_that_the_claim_had_lapsed",
        ('"released" if claim.state == "active" else "expired"', '"released"'),
    ),
    # --- 15: what is handed on --------------------------------------------------------------------
    "the end stays": guard(
        "test_the_end_stays",
        ("end = live.expires_at_ms if ttl_ms is None else", "end = None if ttl_ms is None else"),
    ),
    "none stays none": guard(
        "test_no_end_stays_none",
        (
            "end = live.expires_at_ms if ttl_ms is None else",
            "end = live.expires_at_ms or unit.now_ms + 1000 if ttl_ms is None else",
        ),
    ),
    "a new end": guard(
        "test_a_new_end_is_taken",
        (
            "end = live.expires_at_ms if ttl_ms is None else",
            "end = live.expires_at_ms if True else",
        ),
    ),
    "what lapsed is not handed on": guard(
        (
            "test_a_lapsed_one_hands_on_nothing",
            "test_a_ttl_over_a_lapsed_one_that_is_free_acquires",
        ),
        (
            'in queries.claims_of(unit, before.id) if claim.state == "active"]',
            "in queries.claims_of(unit, before.id)]",
        ),
    ),
    "resuming without the claim": guard(
        "test_resume_without_a_claim_lets_it_go",
        ("live = held[0] if held and inherit else None", "live = held[0] if held else None"),
    ),
    "one hands on what it held": guard(
        "test_a_session_that_held_nothing_hands_on_nothing",
        (
            "held = [claim for claim in queries.claims_of(unit, before.id) if",
            "held = [claim for claim in queries.open_claims(unit) if",
        ),
    ),
}
