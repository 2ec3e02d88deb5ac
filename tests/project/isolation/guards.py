"""The guards that hold the conditions, each with what is left of it, and the test that then fails.

Taken one at a time out of a copy of the package (`tests.project.patched`). The guards that are
named in `ALWAYS` are tried in every run, the others in the deep one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.project.patched import Change


@dataclass(frozen=True)
class Guard:
    """What is changed, and which test of which condition must see it."""

    condition: str
    test: str
    changes: tuple[Change, ...]


def _guard(condition: str, test: str, file: str, before: str, after: str) -> Guard:
    return Guard(condition, test, (Change(file, before, after),))


STEP = "migrations/versions/v0001_first.py"

GUARDS: dict[str, Guard] = {
    "a key is only a word": _guard(
        "01",
        "test_nothing_that_is_handed_out_leads_to_the_database",
        "access.py",
        "    _stores[word] = store\n    return Key(word)",
        "    _stores[word] = store\n    key = Key(word)\n    Key.kept = store\n    return key",
    ),
    "refusals leave without their frames": _guard(
        "01",
        "test_a_refusal_leads_nowhere_either",
        "access.py",
        "        refusal = CallboardError(error.code, error.message, error.hint, error.details)",
        "        raise",
    ),
    "texts become plain": _guard(
        "01",
        "test_no_method_of_a_caller_runs_beside_the_database",
        "names.py",
        "    return str.__str__(value)",
        "    return value",
    ),
    "reserved types": _guard(
        "02",
        "test_it_is_refused_in_every_spelling",
        "names.py",
        '        if folded == reserved or (reserved.endswith(".")',
        '        if found == reserved or (False and reserved.endswith(".")',
    ),
    "an event's session agrees": _guard(
        "03",
        "test_what_conflicts_is_refused",
        "operations/events.py",
        "        lookup.agrees(found, work=work, branch=branch)\n",
        "",
    ),
    "a project sees its own rows": _guard(
        "03",
        "test_a_session_of_another_project_is_none_of_this",
        "unit.py",
        'for name in ("tenant", "project", *keys)]',
        'for name in ("tenant", *keys)]',
    ),
    "main is not inferred": _guard(
        "04",
        "test_main_is_a_branch_like_any_other",
        "groups/events.py",
        "branch=MAIN if branch is None else branch,",
        "branch=None if branch in (None, MAIN) else branch,",
    ),
    "records are frozen": Guard(
        "05",
        "test_records_are_frozen",
        (Change("records.py", "frozen=True", "frozen=False", times=0),),
    ),
    "triggers": _guard(
        "06",
        "test_a_stored_row_stays",
        STEP,
        "            protect(table, keys)",
        "            pass",
    ),
    "recursive triggers": _guard(
        "06",
        "test_every_connection_of_ours_has_the_settings",
        "sqlite_file.py",
        '    "PRAGMA recursive_triggers = ON",\n',
        "",
    ),
    "one revision a change": _guard(
        "07",
        "test_every_change_advances_the_revision_by_one",
        "store.py",
        "row.revision + 1,",
        "row.revision + 2,",
    ),
    "one transaction": _guard(
        "08",
        "test_a_failure_at_the_end_undoes_all",
        "store.py",
        "with self._writer.begin() as connection:",
        "with self._engine.execution_options("
        'isolation_level="AUTOCOMMIT").connect() as connection:',
    ),
    "a live claim is respected": _guard(
        "09",
        "test_a_second_one_is_refused_on_any_branch",
        "operations/claims.py",
        '        if held.state == "active":\n            raise _held(held, session)\n',
        "",
    ),
    "one active row a work": _guard(
        "09",
        "test_the_database_itself_has_room_for_one",
        STEP,
        '        ["tenant", "project", "work"],\n        unique=True,',
        '        ["tenant", "project", "work"],\n        unique=False,',
    ),
    "the expected revision": _guard(
        "10",
        "test_a_stale_revision_changes_nothing",
        "store.py",
        "    if expected is not None and expected != actual:",
        "    if False and expected is not None:",
    ),
    "the revision is compared inside": _guard(
        "10",
        "test_of_those_who_saw_the_same_revision_one_goes_on",
        "store.py",
        "        fingerprint = digest([order.operation, self.actor, order.intent])\n",
        "        fingerprint = digest([order.operation, self.actor, order.intent])\n"
        "        seen = self.read(lambda scope: scope.revision)\n"
        "        _check_revision(order.expected_revision, seen)\n"
        "        order = Order(order.operation, order.intent, None, order.request_id)\n",
    ),
    "times to live": _guard(
        "11",
        "test_a_wrong_one_leaves_neither_session_nor_claim",
        "names.py",
        "    if type(value) is not int or not 1 <= value <= MAX_SAFE_INTEGER:\n"
        "        raise CallboardError(\n"
        '            "ttl_invalid"',
        "    if not isinstance(value, (int, float)):\n"
        "        raise CallboardError(\n"
        '            "ttl_invalid"',
    ),
    "the end belongs to it": _guard(
        "11",
        "test_it_is_over_at_its_deadline_and_not_before",
        "queries/claims.py",
        "now_ms >= expires_at_ms",
        "now_ms > expires_at_ms",
    ),
    "time never goes back": _guard(
        "11",
        "test_a_clock_set_back_neither_revives_nor_extends",
        "store.py",
        "return machine_ms, max(machine_ms, int(row.clock_ms))",
        "return machine_ms, machine_ms",
    ),
    "the time is the database's": _guard(
        "11",
        "test_a_process_whose_clock_is_wrong_changes_nothing",
        "opening.py",
        "    now_ms: Now = sqlite_file.now_ms\n",
        "    now_ms: Now = lambda _: __import__('time').time_ns() // 1_000_000\n",
    ),
    "a takeover tells of the old one": _guard(
        "12",
        "test_the_lapsed_one_and_the_new_owner_are_told_together",
        "operations/claims.py",
        '        over = {"took_over": _identity(held)}',
        "        over = {}",
    ),
    "the repair looks again": _guard(
        "13",
        "test_what_has_not_lapsed_is_refused",
        "operations/claims.py",
        '    if claim.state != "expired" or claim.released_at_ms is not None:',
        "    if claim.released_at_ms is not None:",
    ),
    "the holder": _guard(
        "14",
        "test_another_session_cannot_release_or_renew_it",
        "operations/claims.py",
        'if held is not None and held.session == session.id and held.state == "active":',
        'if held is not None and held.state == "active":',
    ),
    "a lapsed holder is none": _guard(
        "14",
        "test_nobody_releases_a_lapsed_one",
        "operations/claims.py",
        'if held is not None and held.session == session.id and held.state == "active":',
        "if held is not None and held.session == session.id:",
    ),
    "the end stays": _guard(
        "15",
        "test_the_end_stays",
        "operations/succession.py",
        "end = live.expires_at_ms if ttl_ms is None else",
        "end = None if ttl_ms is None else",
    ),
    "what lapsed is not handed on": _guard(
        "15",
        "test_a_lapsed_one_hands_on_nothing",
        "operations/succession.py",
        "    held = [claim for claim in queries.claims_of(unit, before.id) "
        'if claim.state == "active"]',
        "    held = queries.claims_of(unit, before.id)",
    ),
    "selecting moves nothing": _guard(
        "16",
        "test_only_the_selection_changes",
        "operations/branches.py",
        '    unit.change(schema.selections, {"person": unit.person}, branch=branch.name)\n',
        '    unit.change(schema.selections, {"person": unit.person}, branch=branch.name)\n'
        '    unit.change(schema.sessions, {"state": "active"}, branch=branch.name)\n',
    ),
    "histories apart": _guard(
        "17",
        "test_each_has_its_own",
        "queries/history.py",
        "        (table.c.session, session),\n        (table.c.branch, branch),\n",
        "        (table.c.session, session),\n",
    ),
    "one claim on both branches": _guard(
        "17",
        "test_the_same_work_on_one_only_and_different_work_on_both",
        "operations/claims.py",
        '        if held.state == "active":\n            raise _held(held, session)\n',
        '        if held.state == "active" and held.branch == session.branch:\n'
        "            raise _held(held, session)\n",
    ),
    "the selected branch alone": _guard(
        "18",
        "test_only_the_selected_branch_is_looked_at",
        "operations/sessions.py",
        'scope, state="active", branch=on, work=work',
        'scope, state="active", work=work',
    ),
    "ambiguity is told": _guard(
        "18",
        "test_several_are_listed_and_none_is_chosen",
        "operations/sessions.py",
        "    if len(found) > 1:\n",
        "    if len(found) > 1_000:\n",
    ),
    "a cursor belongs to its filters": _guard(
        "19",
        "test_a_cursor_is_bound_to_its_question",
        "cursors.py",
        '    if value["f"] != _mark(scope, listing, filters):',
        "    if False:",
    ),
    "one successor": _guard(
        "20",
        "test_there_is_one_successor",
        "operations/succession.py",
        "    if follower is not None:",
        "    if False:",
    ),
    "the branch is current": _guard(
        "20",
        "test_resume_needs_its_branch_to_be_current",
        "operations/succession.py",
        "    if session.branch != selected:",
        "    if False:",
    ),
    "a closed branch": _guard(
        "20",
        "test_a_closed_branch_takes_nothing_new_and_stays_readable",
        "operations/lookup.py",
        '    if found.state == "closed":',
        "    if False:",
    ),
    "evidence of another branch": _guard(
        "20",
        "test_evidence_of_another_branch_is_history",
        "queries/history.py",
        'currency="current" if row.branch == branch else "historical",',
        'currency="current",',
    ),
}

ALWAYS = frozenset(
    {
        "triggers",
        "the expected revision",
        "a live claim is respected",
        "one active row a work",
        "the repair looks again",
        "the holder",
        "time never goes back",
        "the time is the database's",
    }
)
