"""Worker recipes and the contract that Work may rely on."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from callboard import canonical
from callboard.board.publishing.recipe import (
    FOLDER,
    MAX_RECIPE_BYTES,
    MAX_RECIPES,
    OutputRule,
    Recipe,
    logical_contract,
    parse_recipe,
    read_recipes,
    recipe_name,
    recipe_path,
)
from callboard.errors import CallboardError

FULL = """
command = ["python3", "scripts/check.py", "--deep"]
setup = ["make", "deps"]
timeout_s = 600
setup_timeout_s = 60
env = ["MODEL_KEY", "LOG_LEVEL"]
max_claims = 4
share_keys = true
mcp = true
inputs = ["design", "brief"]
tools = ["search", "edit"]
[outputs.patch]
min = 1
[outputs.artifact]
min = 1
max = 3
"""


def parse(text: str) -> Recipe:
    return parse_recipe(text.encode(), name="checker")


def faults(text: str | bytes) -> dict[str, str]:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(CallboardError) as refused:
        parse_recipe(data, name="checker")
    assert refused.value.code == "recipe_invalid"
    assert ".callboard/workers/checker.toml" in refused.value.message
    found = refused.value.details["faults"]
    assert isinstance(found, list)
    return {fault["pointer"]: fault["message"] for fault in found}


def test_a_command_is_enough() -> None:
    assert parse('command = ["true"]') == Recipe(
        command=("true",),
        timeout_s=3_600,
        setup=None,
        setup_timeout_s=900,
        env=(),
        max_claims=1,
        share_keys=False,
        outputs=(),
        inputs=(),
        tools=(),
    )


def test_every_field_is_read() -> None:
    assert parse(FULL) == Recipe(
        command=("python3", "scripts/check.py", "--deep"),
        timeout_s=600,
        setup=("make", "deps"),
        setup_timeout_s=60,
        env=("LOG_LEVEL", "MODEL_KEY"),
        max_claims=4,
        share_keys=True,
        mcp=True,
        outputs=(OutputRule("artifact", 1, 3), OutputRule("patch", 1, 1)),
        inputs=("brief", "design"),
        tools=("edit", "search"),
    )


def test_outputs_by_name_alone_may_be_delivered_and_need_not() -> None:
    recipe = parse('command = ["true"]\noutputs = ["patch", "artifact"]')
    assert recipe.outputs == (OutputRule("artifact", 0, 128), OutputRule("patch", 0, 1))


def test_all_faults_are_told_at_once_with_near_misses() -> None:
    text = """
    comand = ["true"]
    timeout_s = 0
    setup = []
    env = ["OK", "OK", "1BAD", 3, "GIT_DIR", "CALLBOARD_RUN_ID", "HOME", "GITHUB_TOKEN"]
    max_claims = 17
    share_keys = 1
    inputs = "brief"
    tools = [""]
    prompt = "x"
    [outputs]
    patch = {min = 2}
    artifcat = {}
    artifact = {min = 3, max = 2, mx = 1}
    """
    found = faults(text)
    assert set(found) == {
        "/comand", "/command", "/timeout_s", "/setup", "/env/1", "/env/2", "/env/3", "/env/4",
        "/env/5", "/env/6", "/env/7", "/max_claims", "/share_keys", "/inputs", "/tools/0",
        "/prompt", "/outputs/patch/min", "/outputs/artifcat", "/outputs/artifact/min",
        "/outputs/artifact/mx",
    }  # fmt: skip
    assert "did you mean 'command'" in found["/comand"]
    assert "did you mean 'artifact'" in found["/outputs/artifcat"]
    assert "did you mean 'max'" in found["/outputs/artifact/mx"]
    assert "twice" in found["/env/1"]


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ('"make test"', "/command"),
        ("[]", "/command"),
        ('["sh", ""]', "/command/1"),
        ('["sh", 1]', "/command/1"),
        ('["sh", "a\\u0000b"]', "/command/1"),
        ("{}", "/command"),
    ],
)
def test_a_command_is_a_list_of_words(value: str, pointer: str) -> None:
    assert set(faults(f"command = {value}")) == {pointer}


@pytest.mark.parametrize("value", ["true", "1.0", '"60"', "86401", "-1", "[]"])
def test_a_time_limit_is_whole_seconds_within_a_day(value: str) -> None:
    assert set(faults(f'command = ["true"]\ntimeout_s = {value}')) == {"/timeout_s"}


@pytest.mark.parametrize("value", ['"patch"', "[1]", '["patch", "patch"]', '["comment"]', "true"])
def test_outputs_are_known_types(value: str) -> None:
    assert all(
        pointer.startswith("/outputs")
        for pointer in faults(f'command = ["true"]\noutputs = {value}')
    )


@pytest.mark.parametrize("data", [b"command = [", b"\xff", b"a" * 10, b"x = " + b"[" * 30_000])
def test_what_is_no_toml_is_refused(data: bytes) -> None:
    assert set(faults(data)) == {""}


def test_the_size_is_bounded_before_anything_is_parsed() -> None:
    start = b'command = ["true"]\n#'
    full = start + b"x" * (MAX_RECIPE_BYTES - len(start))
    assert parse_recipe(full, name="checker").command == ("true",)
    with pytest.raises(CallboardError, match="resource_limit"):
        parse_recipe(full + b"x", name="checker")


@pytest.mark.parametrize("name", ["a", "Agent-1", "code_review.v2", "0", "x" * 64])
def test_names_and_paths_go_both_ways(name: str) -> None:
    assert recipe_path(name) == f".callboard/workers/{name}.toml"
    assert recipe_name(recipe_path(name)) == name


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "_a", "a..b", "a/b", "a b", "ä", "x" * 65, "a\n", "a\0"]
)
def test_names_that_could_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(CallboardError, match="recipe_invalid"):
        recipe_path(name)
    assert recipe_name(f".callboard/workers/{name}.toml") is None


@pytest.mark.parametrize(
    "path",
    [".callboard/workers/a", ".callboard/a.toml", "workers/a.toml", ".callboard/workers/.toml"],
)
def test_other_paths_name_no_recipe(path: str) -> None:
    assert recipe_name(path) is None


def test_the_contract_is_the_digest_of_what_work_relies_on() -> None:
    expected = (
        b'{"env":["LOG_LEVEL","MODEL_KEY"],"inputs":["brief","design"],"max_claims":4,'
        b'"outputs":[{"max":3,"min":1,"type":"artifact"},{"max":1,"min":1,"type":"patch"}],'
        b'"share_keys":true,"tools":["edit","search"]}'
    )
    assert canonical.encode(canonical.decode(expected)) == expected
    assert logical_contract(parse(FULL)) == hashlib.sha256(expected).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        ('"--deep"', '"--shallow"'),
        ("timeout_s = 600", "timeout_s = 601"),
        ("setup_timeout_s = 60", ""),
        ('setup = ["make", "deps"]', ""),
        ('["MODEL_KEY", "LOG_LEVEL"]', '["LOG_LEVEL", "MODEL_KEY"]'),
        ('["search", "edit"]', '["edit", "search"]'),
        ("mcp = true", ""),
    ],
)
def test_how_it_runs_is_no_part_of_the_contract(change: tuple[str, str]) -> None:
    changed = FULL.replace(*change, 1)
    assert changed != FULL
    assert logical_contract(parse(changed)) == logical_contract(parse(FULL))


@pytest.mark.parametrize(
    "change",
    [
        ('"MODEL_KEY", ', ""),
        ("max_claims = 4", "max_claims = 3"),
        ("share_keys = true", ""),
        ('"design", ', ""),
        ('"search", ', ""),
        ("max = 3", "max = 2"),
        ("[outputs.patch]\nmin = 1", ""),
    ],
)
def test_what_it_gets_and_gives_is_part_of_the_contract(change: tuple[str, str]) -> None:
    changed = FULL.replace(*change, 1)
    assert changed != FULL
    assert logical_contract(parse(changed)) != logical_contract(parse(FULL))


GOOD = b'command = ["true"]'


def folder(**files: bytes) -> dict[str, Recipe]:
    held = {f"{FOLDER}{name}.toml": data for name, data in files.items()}
    return read_recipes([*held, FOLDER + "README.md"], held.get)


def refused(**files: bytes) -> CallboardError:
    with pytest.raises(CallboardError) as caught:
        folder(**files)
    assert caught.value.hint
    return caught.value


def test_every_recipe_of_the_folder_is_read_by_name() -> None:
    found = folder(default=GOOD, other=GOOD)
    assert found == {"default": Recipe(("true",)), "other": Recipe(("true",))}
    assert folder() == {}


def listed(error: CallboardError, name: str) -> list[Any]:
    found = error.details[name]
    assert isinstance(found, list)
    return found


def test_one_faulty_recipe_refuses_the_folder_with_its_faults() -> None:
    error = refused(default=b'command = "make"\ntimeout_s = 0', zz=GOOD)
    assert error.code == "recipe_invalid"
    assert error.message.startswith(".callboard/workers/default.toml: /command: is 'make', not a")
    assert listed(error, "workers") == ["default"]
    assert [one["pointer"] for one in listed(error, "faults")] == ["/command", "/timeout_s"]


def test_every_faulty_recipe_is_named_with_its_faults() -> None:
    error = refused(a=b"command = []", b=GOOD, c=b"x", d=b"# " + b"x" * MAX_RECIPE_BYTES)
    assert error.code == "recipe_invalid"
    assert error.message.startswith("3 worker recipes are faulty: 'a', 'c', 'd'; .callboard/")
    assert listed(error, "workers") == ["a", "c", "d"]
    faults = listed(error, "faults")
    assert [one["pointer"] for one in faults] == ["/a/command", "/c", "/d"]
    assert "65538 bytes" in faults[2]["message"]


def test_of_many_faulty_recipes_each_has_a_fault_listed() -> None:
    error = refused(**{f"w{number:03}": b"a = 1\nb = 2" for number in range(MAX_RECIPES)})
    assert "'w007' and 248 more; " in error.message
    assert len(listed(error, "workers")) == len(listed(error, "faults")) == MAX_RECIPES


def test_a_file_whose_name_cannot_name_a_worker_is_not_passed_over() -> None:
    error = refused(**{"my worker": GOOD, "default": GOOD})
    assert error.code == "recipe_invalid"
    assert "'my worker' cannot name a worker" in error.message


def test_too_many_recipes_are_refused_before_any_is_read() -> None:
    def unread(path: str) -> bytes:
        raise AssertionError(path)

    paths = [f"{FOLDER}w{number}.toml" for number in range(MAX_RECIPES + 1)]
    with pytest.raises(CallboardError) as caught:
        read_recipes(paths, unread)
    assert caught.value.code == "config_invalid"
    assert caught.value.details == {"count": 257, "limit": 256}
    assert "257" in caught.value.message
    assert "256" in caught.value.message
    assert len(read_recipes(paths[1:], lambda _path: GOOD)) == MAX_RECIPES


def test_a_repository_that_cannot_be_read_is_no_faulty_recipe() -> None:
    def broken(_path: str) -> bytes:
        raise CallboardError("object_missing", "gone")

    with pytest.raises(CallboardError) as caught:
        read_recipes([FOLDER + "default.toml"], broken)
    assert caught.value.code == "object_missing"
