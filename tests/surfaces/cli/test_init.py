"""`callboard init` where the disk or the folders are not as it needs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from callboard import files
from tests.surfaces.cli.conftest import PROGRAM, Person, environment

CONFIG = Path(".callboard", "config.toml")
WORKER = Path(".callboard", "workers", "default.toml")


@pytest.mark.parametrize("path", [".callboard", ".callboard/workers"])
def test_a_file_in_the_place_of_a_folder_is_named(stranger: Person, path: str) -> None:
    place = stranger.folder / path
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine")
    error = stranger.call("init", "--json").error
    assert error["code"] == "file_not_regular"
    assert error["message"] == f"{path!r} stands there and is no folder"
    assert place.read_text() == "mine"
    assert not (stranger.folder / CONFIG).exists()


@pytest.mark.parametrize("path", [CONFIG, WORKER])
def test_a_folder_in_the_place_of_a_file_is_not_kept_as_one(stranger: Person, path: Path) -> None:
    (stranger.folder / path).mkdir(parents=True)
    error = stranger.call("init", "--json").error
    assert error["code"] == "file_not_regular"
    assert error["message"] == f"{str(path)!r} stands there and is no regular file"
    # Neither of the two is written where one of them cannot be.
    assert not (stranger.folder / CONFIG).is_file()


def test_a_link_in_the_place_of_a_file_is_not_kept_as_one(stranger: Person) -> None:
    (stranger.folder / ".callboard").mkdir()
    (stranger.folder / CONFIG).symlink_to("nowhere")
    assert stranger.call("init", "--json").error["code"] == "file_not_regular"
    assert (stranger.folder / CONFIG).is_symlink()


def test_links_in_a_circle_are_refused(stranger: Person) -> None:
    (stranger.folder / ".callboard").symlink_to(".callboard")
    assert stranger.call("init", "--json").error["code"] == "file_not_regular"


def test_a_config_folder_that_cannot_be_is_named(stranger: Person, tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    folder = tmp_path / "plain" / "under"
    error = stranger.call("init", "--json", CALLBOARD_CONFIG_DIR=str(folder)).error
    assert error["code"] == "storage_failed"
    assert error["message"] == (
        f"the identity file '{folder}/identity.json' cannot be written: Not a directory"
    )
    assert "CALLBOARD_CONFIG_DIR" in error["hint"]


def test_an_identity_that_leads_nowhere_is_refused(stranger: Person) -> None:
    stranger.config.mkdir()
    (stranger.config / "identity.json").symlink_to("nowhere")
    error = stranger.call("init", "--json").error
    assert error["code"] == "file_not_regular"
    assert str(stranger.config / "identity.json") in error["message"]
    assert (stranger.config / "identity.json").is_symlink()


def test_an_identity_nobody_can_look_for_is_not_taken_for_none(
    stranger: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    exists = Path.exists

    def barred(path: Path) -> bool:
        if path.name == "identity.json":
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", barred)
    for verb in ("init", "whoami"):
        error = stranger.call(verb, "--json").error
        assert error["code"] == "file_unreadable"
        assert str(stranger.config / "identity.json") in error["message"]


def test_a_disk_that_takes_nothing_leaves_nothing(stranger: Person) -> None:
    script = "trap '' XFSZ; ulimit -f 0; exec \"$@\""
    ended = subprocess.run(
        ["bash", "-c", script, "bash", *PROGRAM, "init"],
        cwd=stranger.folder,
        env=environment(stranger) | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{stranger.config}/identity.json' cannot be written: File too large" in ended.stderr
    assert "code: storage_failed" in ended.stderr
    assert os.listdir(stranger.config) == []
    assert stranger.ask("init")["principal_made"] is True


def test_a_starter_that_cannot_be_written_is_named(
    stranger: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.done("init")
    (stranger.folder / WORKER).unlink()

    def full(path: Path, _data: bytes, *, replace: bool) -> None:
        assert not replace
        if path == stranger.folder / WORKER:
            raise OSError(28, "No space left on device")
        raise FileExistsError

    monkeypatch.setattr(files, "publish", full)
    error = stranger.call("init", "--json").error
    assert (error["code"], error["details"]) == ("storage_failed", {"errno": 28})
    assert error["message"] == (
        f"{str(stranger.folder / WORKER)!r} cannot be written: No space left on device"
    )


def test_init_writes_no_full_ref_as_a_branch(stranger: Person) -> None:
    error = stranger.call("init", "--branch", "refs/heads/board", "--json").error
    assert error["code"] == "queue_branch_refused"
    assert not (stranger.folder / ".callboard").exists()
    assert not stranger.config.exists()


def test_init_names_the_remote_in_the_settings(stranger: Person) -> None:
    stranger.call("init", "--remote", "origin", "--branch", "board")
    config = (stranger.folder / ".callboard" / "config.toml").read_text()
    assert '[board]\nbranch = "board"\nremote = "origin"\n' in config


def test_init_takes_no_address_for_a_remote(stranger: Person) -> None:
    error = stranger.call("init", "--remote", "https://example.invalid/x.git", "--json").error
    assert error["code"] == "remote_invalid"
    assert not (stranger.folder / ".callboard").exists()
