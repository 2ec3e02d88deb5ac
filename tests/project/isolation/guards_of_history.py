"""The guards of the first eight conditions: what gets in, what stays, and what is whole."""

from __future__ import annotations

from tests.project.isolation.guard import Guard, followed, guard
from tests.project.patched import Change

READY_OF = (
    '    return (table.c.tenant == bindparam("tenant")) '
    '& (table.c.project == bindparam("project"))\n'
)

HISTORY: dict[str, Guard] = {
    # --- 1: no way to the database ----------------------------------------------------------------
    "a key is only a word": guard(
        "test_nothing_that_is_handed_out_leads_to_the_database",
        (
            "    _stores[word] = store\n    return Key(word)",
            "    _stores[word] = store\n    Key.kept = store\n    return Key(word)",
        ),
    ),
    "an answer of each type is looked at": guard(
        "test_nothing_that_is_handed_out_leads_to_the_database",
        (
            "class EventAppended(",
            "class Told(Answer, frozen=True, kw_only=True):\n    pass\n\n\nclass EventAppended(",
        ),
    ),
    "refusals leave without their frames": guard(
        "test_a_refusal_leads_nowhere_either",
        (
            "        refusal: Exception = CallboardError(error.code, ",
            "        raise\n        CallboardError(",
        ),
        says="assert leaks(refusal) == []",
    ),
    "callers hand in data": guard(
        "test_callers_hand_in_no_callback",
        Change(
            "from callboard.project import names\n",
            "from collections.abc import Callable\n\nfrom callboard.project import names\n",
            "groups/branches.py",
        ),
        Change(
            "        name: str,\n",
            "        name: str,\n        then: Callable[[object], object] | None = None,\n",
            "groups/branches.py",
            times=3,
        ),
    ),
    "texts become plain": guard(
        "test_no_method_of_a_caller_runs_beside_the_database",
        ("    return str.__str__(value)", "    return value"),
    ),
    "closing is for good": guard(
        "test_a_closed_project_is_refused",
        ("store = _stores.pop(key._word, None)", "store = _stores.get(key._word)"),
    ),
    # --- 2: reserved types ------------------------------------------------------------------------
    "reserved types": guard(
        ("test_it_is_refused_in_every_spelling", "test_no_way_of_appending_takes_it"),
        ("    for reserved, operation in RESERVED.items():", "    for reserved, operation in ():"),
    ),
    "other spellings of reserved types": guard(
        (
            "test_it_is_refused_in_every_spelling[Claim.Expired]",
            "test_no_way_of_appending_takes_it[CLAIM.EXPIRED]",
        ),
        # Whatever is spelled so has no form of a type either.
        ("    folded = twin(found)\n", "    folded = found\n"),
    ),
    "the operation is named": guard(
        "test_it_is_refused_in_every_spelling",
        (
            "for reserved, operation in RESERVED.items():",
            "for reserved, operation in zip(RESERVED, reversed(RESERVED.values())):",
        ),
    ),
    "observations have types of their own": guard(
        "test_others_are_observations",
        ('f"{folded}.".startswith(reserved)', "folded.startswith(reserved[:-1])"),
    ),
    "the form of a type": guard(
        "test_what_is_no_type_is_refused_too",
        ("    if _TYPE.fullmatch(found) is None:", "    if False:"),
    ),
    # --- 3, 4: work and branch of a session -------------------------------------------------------
    "an event has its session's work and branch": guard(
        (
            "test_it_inherits_work_and_branch",
            "test_none_named_infers_the_sessions",
        ),
        ("        work, branch = found.work, found.branch\n", "        pass\n"),
    ),
    "an event's session agrees": guard(
        ("test_what_conflicts_is_refused", "test_main_is_a_branch_like_any_other"),
        Change(
            "lookup.speaker(unit, session, work=work, branch=branch)",
            "lookup.speaker(unit, session)",
            "operations/events.py",
        ),
    ),
    "evidence's session agrees": guard(
        "test_evidence_keeps_to_it_too",
        Change(
            "lookup.speaker(unit, session, work=work, branch=branch)",
            "lookup.speaker(unit, session)",
            "operations/evidence.py",
        ),
    ),
    "a project sees its own rows": guard(
        "test_a_session_of_another_project_is_none_of_this",
        (
            'for name in ("tenant", "project", *keys)]\n\n\n@cache\ndef _choice',
            'for name in ("tenant", *keys)]\n\n\n@cache\ndef _choice',
        ),
    ),
    "lists are of one project": guard(
        "test_a_session_of_another_project_is_none_of_this[project]",
        (
            "(table.c.tenant == self.tenant) & (table.c.project == self.project)",
            "table.c.tenant == self.tenant",
        ),
    ),
    "lists are of one tenant": guard(
        "test_a_session_of_another_project_is_none_of_this[tenant]",
        (
            "(table.c.tenant == self.tenant) & (table.c.project == self.project)",
            "table.c.project == self.project",
        ),
    ),
    "rows are of one tenant": guard(
        "test_a_session_of_another_project_is_none_of_this[tenant]",
        (
            'for name in ("tenant", "project", *keys)]\n\n\n@cache\ndef _choice',
            'for name in ("project", *keys)]\n\n\n@cache\ndef _choice',
        ),
    ),
    "readiness is of one project": guard(
        "test_a_session_of_another_project_is_none_of_this[project]",
        (READY_OF, '    return table.c.tenant == bindparam("tenant")\n'),
        says="work.ready()",
    ),
    "readiness is of one tenant": guard(
        "test_a_session_of_another_project_is_none_of_this[tenant]",
        (READY_OF, '    return table.c.project == bindparam("project")\n'),
        says="work.ready()",
    ),
    "a cursor is of one project": guard(
        "test_a_cursor_of_another_project_is_none_of_this[project]",
        ("digest([scope.tenant, scope.project, listing", "digest([scope.tenant, listing"),
    ),
    "a cursor is of one tenant": guard(
        "test_a_cursor_of_another_project_is_none_of_this[tenant]",
        ("digest([scope.tenant, scope.project, listing", "digest([scope.project, listing"),
    ),
    "main is not inferred": guard(
        "test_main_is_a_branch_like_any_other",
        (
            "branch=MAIN if branch is None else branch,",
            "branch=None if branch == MAIN else branch,",
        ),
    ),
    "none is main, where it is chosen": guard(
        (
            "test_main_is_a_branch_like_any_other[None]",
            "test_without_a_session_none_named_means_the_selected_one",
        ),
        ("branch=MAIN if branch is None else branch,", "branch=branch,"),
    ),
    # --- 5: copies --------------------------------------------------------------------------------
    "a body is copied": guard(
        "test_a_body_is_the_callers_own",
        ("copy = decode(encode(dict(body)))", "copy = body"),
        ("body=decode(data))", "body=body)"),
    ),
    "each answer is made anew": guard(
        "test_a_body_is_the_callers_own",
        (
            "body=_object.decode(row.body)",
            'body=globals().setdefault("_b", {}).setdefault(row.id, _object.decode(row.body))',
        ),
    ),
    "records are frozen": guard(
        "test_records_are_frozen",
        Change("frozen=True", "frozen=False", "records.py", times=0),
    ),
    # --- 6: history stays -------------------------------------------------------------------------
    "triggers": guard(
        (
            "test_a_stored_row_stays[new]",
            "test_a_stored_row_stays[reopened]",
            "test_a_stored_row_stays[read-only]",
            "test_a_stored_row_stays[snapshot]",
            "test_a_stored_row_stays[plain]",
            "test_nothing_else_was_written_by_a_refused_change",
        ),
        ("            protect(table, keys)", "            pass"),
    ),
    "a trigger on changes": guard(
        "test_a_stored_row_stays",
        Change(
            '    for verb in ("UPDATE", "DELETE"):', '    for verb in ("DELETE",):', "v0001*.py"
        ),
    ),
    "a trigger on deletion": guard(
        "test_a_stored_row_stays",
        Change(
            '    for verb in ("UPDATE", "DELETE"):', '    for verb in ("UPDATE",):', "v0001*.py"
        ),
    ),
    "triggers on what comes once": guard(
        "test_a_stored_row_stays[plain]",
        ("    for key in keys:\n        op", "    for key in ():\n        op"),
    ),
    "recursive triggers": guard(
        (
            "test_every_connection_of_ours_has_the_settings[new]",
            "test_every_connection_of_ours_has_the_settings[reopened]",
            "test_every_connection_of_ours_has_the_settings[read-only]",
            "test_every_connection_of_ours_has_the_settings[snapshot]",
            "test_replace_meets_the_delete_trigger_alone",
        ),
        ('    "PRAGMA recursive_triggers = ON",\n', ""),
    ),
    "the doctor looks for triggers": guard(
        "test_the_doctor_misses_a_guard",
        ("        if trigger not in there:", "        if False:"),
    ),
    # --- 7, 8: one revision, or nothing -----------------------------------------------------------
    "one transaction": guard(
        (
            "test_nothing_else_was_written_by_a_refused_change",
            "test_a_failure_at_the_end_undoes_all",
            "test_making_a_project_that_is_there_already_undoes_all_too",
            "test_a_takeover_whose_receipt_fails_leaves_the_lapsed_claim",
            "test_a_refused_start_leaves_no_session",
        ),
        ('driver.execute("BEGIN IMMEDIATE")', 'driver.execute("SELECT 1")'),
    ),
    "a file is written last": guard(
        "test_a_failure_at_the_end_undoes_all[source patch]",
        (
            "        unit.last.append(partial(patching.accept, place, made))",
            "        patching.accept(place, made)",
        ),
    ),
    "one revision a change": guard(
        (
            "test_every_change_advances_the_revision_by_one",
            "test_making_a_project_that_is_there_already_is_one_change_too",
            "test_a_succession_tells_all_of_it_at_one_revision",
        ),
        ("                    row.revision + 1,", "                    row.revision + 2,"),
    ),
    "one revision for all events": guard(
        (
            "test_every_change_advances_the_revision_by_one[session handoff]",
            "test_a_succession_tells_all_of_it_at_one_revision",
        ),
        (
            '            "revision": self.revision,',
            '            "revision": self.revision + len(self.events),',
        ),
    ),
    "receipts are of the revision": guard(
        "test_every_change_advances_the_revision_by_one",
        (
            "revision=unit.revision,\n            at_ms=unit.now_ms,\n            outcome",
            "revision=unit.revision - 1,\n            at_ms=unit.now_ms,\n            outcome",
        ),
    ),
    "every operation is tried": guard(
        (
            "test_no_operation_that_changes_something_is_left_out",
            "test_each_operation_is_asked_of_a_closed_branch",
        ),
        followed(
            "OPERATIONS: tuple[Operation, ...] = (",
            '    Operation("", "wipe", "Wipe.", "wipe", changes=True),',
        ),
    ),
    "a request is carried out once": guard(
        "test_a_repeated_request_writes_nothing_more",
        ("                if before is not None:\n", "                if False:\n"),
    ),
}
