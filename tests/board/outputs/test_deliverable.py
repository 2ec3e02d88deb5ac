"""Work that could never be delivered is refused before it is admitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.board.outputs.deliverable import check_deliverable
from callboard.board.protocol import identities
from callboard.board.protocol.operations import Payload, Work
from callboard.board.storage.repository import Repository
from callboard.errors import CallboardError
from tests.repositories import git, repository

RECIPE = {"artifact": (0, 128), "patch": (0, 1)}


def work(contract: object, **payload: object) -> Work:
    body: Payload = {"effect_contract": contract, **payload}
    return Work(
        work_id=identities.work_id("g", "n"),
        graph_id="g",
        node_key="n",
        pool="default",
        priority=3,
        fairness_key="",
        worker_profile="default",
        batch_trust_domain="default",
        payload=body,
        depends_on=[],
        enqueued=1,
    )


def one(output_type: str, least: int = 1, most: int = 1, **more: object) -> Payload:
    return {"version": 1, "outputs": [{"type": output_type, "min": least, "max": most, **more}]}


@pytest.mark.parametrize(
    ("contract", "more"),
    [
        ({"kind": "none"}, {}),
        (one("patch"), {}),
        (one("artifact", 3, 128), {}),
        (one("artifact", 0, 1), {"resource_scope": {"version": 1, "resources": []}}),
    ],
)
def test_what_the_recipe_can_deliver_is_taken(
    tmp_path: Path, contract: Payload, more: Payload
) -> None:
    with Repository.discover(repository(tmp_path / "r")) as opened:
        check_deliverable(opened, work(contract, **more), "w", RECIPE)


@pytest.mark.parametrize(
    ("output_type", "least", "fits"),
    [
        ("artifact", 14, True), ("artifact", 20, False), ("note", 14, True), ("note", 16, False),
        ("submit", 10, True), ("submit", 16, False),
    ],
)  # fmt: skip
def test_the_least_that_is_promised_has_to_fit_a_result(
    tmp_path: Path, output_type: str, least: int, fits: bool
) -> None:
    recipe = {output_type: (0, 128)}
    with Repository.discover(repository(tmp_path / "r")) as opened:
        if fits:
            check_deliverable(opened, work(one(output_type, least, least)), "w", recipe)
            return
        with pytest.raises(CallboardError, match="could never be delivered") as caught:
            check_deliverable(opened, work(one(output_type, least, least)), "w", recipe)
    assert caught.value.code == "result_limit"


def test_no_more_launches_are_promised_than_a_run_may_ask_for(tmp_path: Path) -> None:
    wanted = work(one("dispatch_next", 3, 3))
    recipe = {"dispatch_next": (0, 16)}
    with Repository.discover(repository(tmp_path / "r")) as opened:
        check_deliverable(opened, wanted, "w", recipe, max_dispatches=3)
        with pytest.raises(CallboardError, match="could never be delivered") as caught:
            check_deliverable(opened, wanted, "w", recipe, max_dispatches=2)
    assert caught.value.code == "dispatch_budget_exceeded"


@pytest.mark.parametrize(
    ("output_type", "ref"),
    [
        ("note", "refs/callboard/notes"),
        ("submit", "refs/callboard/controls"),
        ("dispatch_next", "refs/callboard/controls"),
        ("artifact", "refs/callboard/artifacts"),
    ],
)
def test_a_ref_in_the_way_of_any_type_is_met_before(
    tmp_path: Path, output_type: str, ref: str
) -> None:
    folder = repository(tmp_path / "r")
    git("update-ref", ref, "HEAD", cwd=folder)
    with (
        Repository.discover(folder) as opened,
        pytest.raises(CallboardError, match=ref) as caught,
    ):
        check_deliverable(opened, work(one(output_type)), "w", {output_type: (0, 1)})
    assert caught.value.code == "ref_conflict"
    assert f"git update-ref -d {ref}" in caught.value.hint


@pytest.mark.parametrize(
    ("contract", "recipe", "code", "found"),
    [
        (one("patch"), {"artifact": (0, 1)}, "output_not_declared", "patch"),
        (one("artifact", 3, 5), {"artifact": (0, 2)}, "output_limit", "3"),
        (one("patch", 2, 2), RECIPE, "output_limit", "2"),
        (one("issue"), {"issue": (0, 1)}, "output_not_declared", "issue"),
        (one("artifact", 0, 1), {"artifact": (2, 3)}, "output_missing", "1 of 2"),
        (
            one("artifact", verification={"verifier_id": "v.1", "expected": {}}),
            RECIPE,
            "verifier_unknown",
            "v.1",
        ),
        ({"version": 2, "outputs": []}, RECIPE, "contract_invalid", "2"),
    ],
)
def test_what_it_cannot_deliver_is_refused(
    tmp_path: Path, contract: Payload, recipe: dict[str, tuple[int, int]], code: str, found: str
) -> None:
    with (
        Repository.discover(repository(tmp_path / "r")) as opened,
        pytest.raises(CallboardError) as refusal,
    ):
        check_deliverable(opened, work(contract), "w", recipe)
    assert refusal.value.code == code
    assert found in refusal.value.message
    assert "node 'n'" in refusal.value.message
    assert refusal.value.hint
    assert refusal.value.details["node_key"] == "n"


def test_a_refusal_names_the_worker_and_what_it_can_deliver(tmp_path: Path) -> None:
    with (
        Repository.discover(repository(tmp_path / "r")) as opened,
        pytest.raises(CallboardError) as refusal,
    ):
        check_deliverable(opened, work(one("patch")), "builder", {"artifact": (0, 1)})
    assert "by worker 'builder'" in refusal.value.message
    assert refusal.value.hint.startswith("worker 'builder' can deliver artifact:")
    assert refusal.value.details["possible"] == ["artifact"]


def test_a_malformed_resource_scope_is_refused(tmp_path: Path) -> None:
    with (
        Repository.discover(repository(tmp_path / "r")) as opened,
        pytest.raises(CallboardError) as refusal,
    ):
        check_deliverable(
            opened, work({"kind": "none"}, resource_scope={"version": 1}), "w", RECIPE
        )
    assert refusal.value.code == "scope_invalid"


def test_a_branch_in_the_way_of_patches_is_named_before_anything_is_written(
    tmp_path: Path,
) -> None:
    folder = repository(tmp_path / "r")
    git("branch", "callboard", cwd=folder)
    with Repository.discover(folder) as opened:
        with pytest.raises(CallboardError) as refusal:
            check_deliverable(opened, work(one("patch")), "w", RECIPE)
        assert refusal.value.code == "ref_conflict"
        assert refusal.value.details["found"] == "refs/heads/callboard"
        check_deliverable(opened, work(one("artifact")), "w", RECIPE)


@pytest.mark.parametrize(
    ("rival", "hindered"),
    [
        ("refs/callboard", ["artifact", "patch"]),
        ("refs/callboard/prepared", ["artifact", "patch"]),
        ("refs/callboard/artifacts", ["artifact"]),
        ("refs/callboard/artifacts/other", []),
        ("refs/callboard/prepared/other", []),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_a_ref_in_the_way_of_outputs_is_named_before_anything_is_written(
    tmp_path: Path, rival: str, hindered: list[str], packed: bool
) -> None:
    folder = repository(tmp_path / "r")
    git("update-ref", rival, "HEAD", cwd=folder)
    if packed:
        git("pack-refs", "--all", cwd=folder)
    with Repository.discover(folder) as opened:
        check_deliverable(opened, work({"kind": "none"}), "w", RECIPE)
        for output_type in ("artifact", "patch"):
            if output_type not in hindered:
                check_deliverable(opened, work(one(output_type)), "w", RECIPE)
                continue
            with pytest.raises(CallboardError) as refusal:
                check_deliverable(opened, work(one(output_type)), "w", RECIPE)
            assert refusal.value.code == "ref_conflict"
            assert refusal.value.details["found"] == rival
            assert repr(rival) in refusal.value.message
            assert refusal.value.hint.endswith(f"git update-ref -d {rival}")
