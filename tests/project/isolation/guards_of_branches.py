"""The guards of conditions 16 to 20: branches, histories, and who goes on."""

from __future__ import annotations

from tests.project.isolation.guard import EARLIER, FIRST, Guard, early, followed, guard, preceded
from tests.project.isolation.guards_of_claims import HELD
from tests.project.patched import Change

BRANCHES: dict[str, Guard] = {
    # --- 16: selecting ----------------------------------------------------------------------------
    "selecting moves nothing": guard(
        "test_only_the_selection_changes",
        followed(
            '    unit.change(schema.selections, {"person": unit.person}, branch=branch.name)',
            '    unit.change(schema.sessions, {"branch": before}, branch=branch.name)',
        ),
    ),
    "a selection is kept": guard(
        "test_what_is_new_goes_to_the_selected_one",
        ('    unit.change(schema.selections, {"person": unit.person}, branch=branch.name)\n', ""),
    ),
    "work is of no branch": guard(
        "test_work_is_seen_from_every_branch",
        preceded(
            '    page, after = cursors.page(scope, "work", filters, found, limit)',
            '    found = found if on == "main" else []',
        ),
    ),
    # --- 17: histories ----------------------------------------------------------------------------
    "histories apart": guard(
        ("test_each_has_its_own", "test_filters_are_exact"),
        (
            "        (table.c.session, session),\n        (table.c.branch, branch),\n",
            "        (table.c.session, session),\n",
        ),
    ),
    "one claim on both branches": guard(
        (
            "test_a_second_one_is_refused_on_any_branch",
            "test_the_same_work_on_one_only_and_different_work_on_both",
            "test_processes_on_two_branches",
        ),
        (HELD, HELD.replace('"active":', '"active" and held.branch == session.branch:')),
    ),
    # --- 18: which session ------------------------------------------------------------------------
    "the selected branch alone": guard(
        "test_only_the_selected_branch_is_looked_at",
        ('scope, state="active", branch=on, work=work', 'scope, state="active", work=work'),
    ),
    "ambiguity is told": guard(
        ("test_several_are_listed_and_none_is_chosen", "test_many_candidates_are_bounded"),
        ("    if len(found) > 1:\n", "    if len(found) > 1_000:\n"),
    ),
    "what is over is not meant": guard(
        "test_what_is_over_is_no_candidate",
        ('scope, state="active", branch=on, work=work', "scope, branch=on, work=work"),
    ),
    "candidates are bounded": guard(
        "test_many_candidates_are_bounded",
        ("MAX_CANDIDATES = 20", "MAX_CANDIDATES = 200"),
    ),
    "a named one agrees": guard(
        "test_a_named_one_must_agree",
        ("        if named is not None and named != own:", "        if False:"),
    ),
    # --- 19: pages --------------------------------------------------------------------------------
    "filters are exact": guard(
        "test_filters_are_exact",
        Change("query.where(column == value)", "query.where(column.ilike(value))", times=0),
    ),
    "the order never changes": guard(
        "test_pages_stay_whole_while_others_write",
        ("order_by(table.c.seq)", "order_by(table.c.id)"),
    ),
    "numbers are given inside": guard(
        "test_pages_stay_whole_while_others_write",
        followed(
            FIRST, "        last = self.read(lambda scope: scope.find(schema.projects).last_seq)"
        ),
        ("                    row.last_seq,\n", "                    last,\n"),
    ),
    "a page goes on behind the last": guard(
        ("test_pages_stay_whole_while_others_write", "test_filters_are_exact"),
        ("table.c.seq > after", "table.c.seq > after + 1"),
    ),
    "a cursor belongs to its filters": guard(
        "test_a_cursor_is_bound_to_its_question",
        ('    if value["f"] != _mark(scope, listing, filters):', "    if False:"),
    ),
    "the form of a cursor": guard(
        (
            "test_what_is_no_cursor_is_refused[a]",
            "test_what_is_no_cursor_is_refused[v]",
            "test_what_is_no_cursor_is_refused[more]",
        ),
        ('value.keys() != {"a", "f", "v"}', "False"),
        ('    if value["v"] != _VERSION:', "    if False:"),
        (
            "    if type(place) is not int or not 0 <= place <= MAX_SAFE_INTEGER:",
            "    if False:",
        ),
    ),
    "the size of a page": guard(
        "test_a_page_has_bounds",
        ("    if type(value) is not int or not 1 <= value <= MAX_PAGE:", "    if False:"),
    ),
    "the bytes of a page": guard(
        "test_a_page_is_bounded_in_bytes_too",
        ("        if count and size > MAX_PAGE_BYTES:", "        if False:"),
    ),
    # --- 20: succession, closed branches, evidence ------------------------------------------------
    "a successor is on the same branch": guard(
        "test_a_handoff_keeps_work_branch_and_the_owner_of_the_checkpoint",
        (
            "sessions.begin(unit, before.work, before.branch,",
            "sessions.begin(unit, before.work, queries.selected_branch(unit),",
        ),
    ),
    "a checkpoint keeps its owner": guard(
        "test_a_handoff_keeps_work_branch_and_the_owner_of_the_checkpoint",
        preceded(
            "            return found\n        at = None if",
            "            found = msgspec.structs.replace(found, session=session.id)",
        ),
    ),
    "one successor": guard(
        ("test_there_is_one_successor", "test_of_many_processes_one_goes_on"),
        (
            '    if follower is not None:\n        raise CallboardError(\n            "successor',
            '    if False:\n        raise CallboardError(\n            "successor',
        ),
    ),
    "the successor is looked for inside": guard(
        "test_of_many_processes_one_goes_on",
        *early(
            "[one for _place, one in queries.sessions(scope)]",
            "predecessor",
            (
                "    follower = queries.successor(unit, session.id)\n",
                f"    follower = {EARLIER}(session.id)\n",
            ),
        ),
    ),
    "the branch is current": guard(
        (
            "test_resume_needs_its_branch_to_be_current",
            "test_a_branch_that_is_selected_meanwhile_is_the_current_one",
        ),
        ("    if session.branch != selected:", "    if False:"),
    ),
    "the selection is looked at inside": guard(
        "test_a_branch_that_is_selected_meanwhile_is_the_current_one",
        *early(
            "[one for one in queries.branches(scope) if one.selected]",
            "selected",
            (
                "    selected = queries.selected_branch(unit)\n    if",
                f"    selected = {EARLIER}(True).name\n    if",
            ),
        ),
    ),
    "what has ended stays so": guard(
        "test_what_has_ended_is_not_resumed",
        ('    if before.state not in ("active", "interrupted"):', "    if False:"),
    ),
    "a closed branch": guard(
        (
            "test_a_closed_branch_takes_nothing_new",
            "test_a_branch_that_is_closed_meanwhile_takes_nothing_new",
        ),
        ('    if found.state == "closed":', "    if False:"),
    ),
    "a branch is looked at inside": guard(
        "test_a_branch_that_is_closed_meanwhile_takes_nothing_new",
        *early(
            "queries.branches(scope)",
            "name",
            (
                '    if found.state == "closed":',
                f'    if {EARLIER}(found.name, found).state == "closed":',
            ),
        ),
    ),
    "an interruption needs an open branch": guard(
        "test_a_closed_branch_takes_nothing_new[session interrupt]",
        (
            "    # Nobody could resume it there.\n    lookup.open_branch(unit, session.branch)\n",
            "",
        ),
    ),
    "a renewal needs an open branch": guard(
        "test_a_closed_branch_takes_nothing_new[claim renew]",
        (
            "    lookup.open_branch(unit, session.branch)\n    held = held_by(unit, session)\n",
            "    held = held_by(unit, session)\n",
        ),
    ),
    "a completion needs an open branch": guard(
        "test_a_closed_branch_takes_nothing_new[work complete]",
        ("    lookup.open_branch(unit, session.branch)\n    claim = claims", "    claim = claims"),
    ),
    "what is under way may end": guard(
        "test_what_is_under_way_on_a_closed_branch_can_be_ended",
        preceded(
            "    held = held_by(unit, session, _NOTHING_TO_RELEASE)",
            "    lookup.open_branch(unit, session.branch)",
        ),
    ),
    "a closed branch closes itself alone": guard(
        "test_a_closed_branch_says_nothing_of_others",
        (
            '    if found.state == "closed":',
            '    if any(one.state == "closed" for one in queries.branches(scope)):',
        ),
    ),
    "a closed branch is readable": guard(
        "test_a_closed_branch_stays_readable",
        Change(
            " = lookup.branch(scope, ", " = lookup.open_branch(scope, ", "operations/*.py", times=0
        ),
    ),
    "evidence of another branch": guard(
        (
            "test_evidence_of_another_branch_is_history",
            "test_what_another_branch_shows_completes_nothing",
        ),
        ('currency="current" if row.branch == branch else "historical",', 'currency="current",'),
    ),
}
