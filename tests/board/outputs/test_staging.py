"""The worker's own side: every wish whole or not at all, refused where it would be later."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from callboard import canonical
from callboard.board.outputs.intake import take
from callboard.board.outputs.messages import Terms
from callboard.board.outputs.staging import Stager, prepare_folder, read_assignment
from callboard.board.protocol.commit import Assignment
from callboard.errors import CallboardError
from tests.board.outputs.scene import BOTH, NO_WRITES, RECIPE, TERMS, assignment, outputs, staging


def stager(tmp_path: Path, *contracts: Any, terms: Terms = TERMS) -> tuple[Path, Stager]:
    folder = staging(tmp_path, terms)
    return folder, Stager(folder, assignment(*(contracts or (BOTH,))))


def refusal(call: Any, *arguments: Any, **named: Any) -> CallboardError:
    with pytest.raises(CallboardError) as refused:
        call(*arguments, **named)
    return refused.value


def staged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("message-*.json"))]


def test_the_folder_is_private_and_new(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert refusal(prepare_folder, folder, TERMS).code == "staging_invalid"


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_in_the_folders_place_is_not_followed(tmp_path: Path, exists: bool) -> None:
    outside = tmp_path / "outside"
    if exists:
        outside.mkdir(mode=0o755)
    link = tmp_path / "staging"
    link.symlink_to(outside)
    assert refusal(prepare_folder, link, TERMS).code == "staging_invalid"
    assert refusal(Stager(link, assignment(BOTH)).finish, "completed").code == "staging_invalid"
    if exists:
        assert stat.S_IMODE(outside.stat().st_mode) == 0o755
        assert list(outside.iterdir()) == []
    else:
        assert not outside.exists()


def test_a_message_keeps_the_selector_as_it_was_given(tmp_path: Path) -> None:
    folder, side = stager(tmp_path)
    receipt = side.finish("completed")
    assert receipt.document() == {"intent_id": receipt.intent_id, "status": "staged"}
    assert receipt.handle == "h1"
    assert staged(folder) == [
        {"intent_id": receipt.intent_id, "kind": "finish", "outcome": "completed"}
    ]


def test_the_same_wish_again_is_the_same_intent(tmp_path: Path) -> None:
    folder, side = stager(tmp_path)
    file = tmp_path / "report.md"
    file.write_text("text")
    assert side.finish("completed") == side.finish("completed")
    assert side.artifact(file) == side.artifact(file)
    assert side.patch() == side.patch()
    assert [message["kind"] for message in staged(folder)] == ["finish", "artifact", "patch"]
    assert refusal(side.finish, "cancelled").code == "finish_conflict"
    assert len(staged(folder)) == 3


def test_a_copy_is_taken_when_it_is_staged(tmp_path: Path) -> None:
    folder, side = stager(tmp_path)
    file = tmp_path / "report.md"
    file.write_text("first")
    side.artifact(file)
    file.write_text("second, longer")
    side.finish("completed")
    (found,) = take(folder, assignment(BOTH), TERMS).claims
    (output,) = found.outputs
    assert output.type == "artifact"
    assert output.data == b"first"
    assert stat.S_IMODE((folder / f"blob-{output.sha256}").stat().st_mode) == 0o600


def test_a_name_is_given_once(tmp_path: Path) -> None:
    _, side = stager(tmp_path)
    file = tmp_path / "Report"
    file.write_text("first")
    side.artifact(file)
    side.artifact(file, "other")
    file.write_text("second")
    assert refusal(side.artifact, file).code == "artifact_name_taken"
    error = refusal(side.artifact, file, "REPORT")
    assert error.code == "artifact_name_taken"
    assert "'Report'" in error.message


def test_only_regular_files_are_taken(tmp_path: Path) -> None:
    folder, side = stager(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    link = tmp_path / "link"
    link.symlink_to(secret)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (link, dangling, pipe, tmp_path, Path("/dev/zero")):
        assert refusal(side.artifact, path).code == "file_not_regular", path
    assert refusal(side.artifact, tmp_path / "absent").code == "file_missing"
    assert staged(folder) == []
    assert not list(folder.glob("blob-*"))


def test_limits_are_met_before_anything_is_written(tmp_path: Path) -> None:
    terms = Terms(
        outputs=TERMS.outputs, artifact_bytes=10, run_artifacts=2, run_bytes=15, result_bytes=4096
    )
    folder, side = stager(tmp_path, terms=terms)
    file = tmp_path / "file"
    file.write_bytes(b"x" * 11)
    assert refusal(side.artifact, file).code == "artifact_limit"
    file.write_bytes(b"x" * 10)
    side.artifact(file, "one")
    file.write_bytes(b"y" * 6)
    assert refusal(side.artifact, file, "two").code == "artifact_limit"
    file.write_bytes(b"y" * 5)
    side.artifact(file, "two")
    file.write_bytes(b"")
    assert refusal(side.artifact, file, "three").code == "artifact_limit"
    assert len(list(folder.glob("blob-*"))) == 2


def test_a_sparse_giant_is_refused_unread(tmp_path: Path) -> None:
    _, side = stager(tmp_path)
    file = tmp_path / "giant"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    assert refusal(side.artifact, file).code == "artifact_limit"


def test_what_no_result_could_describe_is_refused(tmp_path: Path) -> None:
    _, side = stager(tmp_path, outputs(artifact=(0, 128)))
    file = tmp_path / "file"
    for number in range(10):
        file.write_text(str(number))
        side.artifact(file, f"name-{number}")

    def go_on() -> None:
        for number in range(10, 64):
            file.write_text(str(number))
            side.artifact(file, f"name-{number}")

    assert refusal(go_on).code == "result_limit"


def test_contract_and_recipe_count_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    _, side = stager(tmp_path, NO_WRITES, outputs(artifact=(0, 1)))
    assert refusal(side.artifact, file, selector="h1").code == "output_not_declared"
    side.artifact(file, "one", "h2")
    assert refusal(side.artifact, file, "two", "h2").code == "output_limit"
    assert refusal(side.patch, "h2").code == "output_not_declared"
    assert refusal(side.patch).code == "claim_scope_required"
    assert refusal(side.finish, "completed", "").code == "claim_scope_invalid"


def test_without_terms_the_contract_alone_counts(tmp_path: Path) -> None:
    folder, side = stager(tmp_path, terms=Terms.of({}))
    file = tmp_path / "file"
    file.write_text("text")
    assert refusal(side.artifact, file).code == "output_not_declared"
    (folder / "terms.json").unlink()
    side.artifact(file)
    (folder / "terms.json").write_text('{"outputs":{}, "outputs":{}}')
    assert refusal(side.finish, "completed").code == "duplicate_key"


def test_an_empty_patch_is_asked_for_last(tmp_path: Path) -> None:
    folder, side = stager(tmp_path, outputs(patch=(0, 1)), NO_WRITES)
    empty = {"is_empty": lambda: True}
    assert refusal(side.patch, **empty).code == "claim_scope_required"
    assert refusal(side.patch, "h2", **empty).code == "output_not_declared"
    assert refusal(side.patch, "h1", **empty).code == "patch_paths_required"
    assert refusal(side.patch, "h1", paths=["a"], **empty).code == "patch_empty"
    assert staged(folder) == []


def test_racing_commands_lose_no_message(tmp_path: Path) -> None:
    folder = staging(tmp_path)
    members = assignment(*[outputs(artifact=(0, 4), patch=(0, 1))] * 8)
    start = threading.Barrier(8)
    failed: list[BaseException] = []

    def run(handle: str) -> None:
        try:
            file = tmp_path / f"file-{handle}"
            file.write_text(handle)
            start.wait(30)
            side = Stager(folder, members)
            side.artifact(file, selector=handle)
            side.patch(handle, paths=[f"{handle}/own"])
            side.finish("completed", handle)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run, args=(one.handle,)) for one in members.claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    found = take(folder, members, Terms.of(RECIPE))
    assert found.unattributed == ()
    assert found.ignored == ()
    for claim in found.claims:
        assert [output.type for output in claim.suppressed] == ["artifact"], claim
        assert claim.reason == "output_failed", "there is no work tree here"
        assert [refusal.code for refusal in claim.refusals] == ["patch_unavailable"]


def test_a_full_folder_takes_no_more(tmp_path: Path) -> None:
    folder, side = stager(tmp_path, BOTH, BOTH)
    for number in range(1, 257):
        (folder / f"message-{number:06}.json").write_text("{")
    assert refusal(side.finish, "completed", "h1").code == "staging_limit"


def test_a_folder_that_is_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    """Between the look at the folder and the write, its path comes to lead elsewhere."""
    folder, side = stager(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)

    def swap() -> bool:
        folder.rename(tmp_path / "aside")
        folder.symlink_to(outside)
        return False

    side.patch(is_empty=swap)
    assert list(outside.iterdir()) == []
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755
    assert len(staged(tmp_path / "aside")) == 1
    assert refusal(side.finish, "completed").code == "staging_invalid"


def test_an_own_type_has_a_name_of_its_own(tmp_path: Path) -> None:
    _folder, side = stager(tmp_path)
    for name in ("artifact", "patch", "finish", "", "Acme.ticket", "acme", "acme..x", "a.b\n"):
        assert refusal(side.own, name, b"{}").code == "output_type_invalid", name


def test_terms_that_are_no_terms_are_refused(tmp_path: Path) -> None:
    folder, side = stager(tmp_path)
    (folder / "terms.json").write_text('{"max_dispatches": 300}')
    assert refusal(side.finish, "completed").code == "terms_invalid"


def test_what_lies_in_the_way_of_a_message_is_passed_over(tmp_path: Path) -> None:
    folder, side = stager(tmp_path)
    (folder / "message-000001.json").mkdir()
    (folder / "message-000002.json").write_text("not JSON")
    side.finish("completed")
    assert (folder / "message-000003.json").is_file()


def test_the_assignment_is_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "assignment.json"
    found = assignment(BOTH)
    path.write_bytes(canonical.encode(found))
    assert isinstance(read_assignment(path), Assignment)
    assert read_assignment(path) == found
    plain = path.read_text()
    for text, code in (
        (plain.replace('"version":3', '"version":2'), "assignment_invalid"),
        (plain.replace('{"claims"', '{"extra":1,"claims"'), "assignment_invalid"),
        (plain.replace('"pool":', '"pool":"x","p\\u006fol":'), "duplicate_key"),
        ("", "invalid_json"),
    ):
        path.write_text(text)
        assert refusal(read_assignment, path).code == code
    path.write_bytes(b" " * (256 * 1024 + 1))
    assert refusal(read_assignment, path).code == "resource_limit"
    path.unlink()
    assert refusal(read_assignment, path).code == "file_missing"
    path.symlink_to(tmp_path)
    assert refusal(read_assignment, path).code == "file_not_regular"
