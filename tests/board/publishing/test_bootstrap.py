"""The policy that settings and recipes propose."""

from __future__ import annotations

import pytest

from callboard.board.protocol.policy import CEILINGS, PolicyDocument
from callboard.board.publishing.bootstrap import propose_policy
from callboard.board.publishing.config import read_settings
from callboard.board.publishing.recipe import Recipe, logical_contract
from callboard.errors import CallboardError

REVISION = "b" * 40
RECIPES = {
    "default": Recipe(command=("true",)),
    "heavy": Recipe(command=("make",), max_claims=8, share_keys=True),
}


def proposed(text: str = "", recipes: dict[str, Recipe] | None = None) -> PolicyDocument:
    return propose_policy(
        read_settings(text.encode()).work_queue,
        RECIPES if recipes is None else recipes,
        repository="owner/name",
        revision=REVISION,
    )


def test_without_settings_the_defaults_hold() -> None:
    policy = proposed()
    assert policy.is_aw
    assert policy.producers == {}
    assert policy.limits == CEILINGS
    assert (policy.class_weights, policy.accounting_weights) == ([8, 4, 2, 1, 1], {"": 1})
    pool = policy.pools["default"]
    assert (pool.logical_limit, pool.native_limit, pool.default_profile) == (16, 16, "default")
    assert pool.allowed_repositories == ["owner/name"]
    assert (pool.retry.max_attempts, pool.retry.backoff_ms) == (3, 30_000)
    assert (pool.reconciliation.max_attempts, pool.reconciliation.deadline_ms) == (5, 300_000)
    assert pool.max_observation_age_ms == 60_000


def test_each_recipe_is_a_profile_pinned_to_the_commit() -> None:
    heavy = proposed().pools["default"].profiles["heavy"]
    assert heavy.workflow == ".callboard/workers/heavy.toml"
    assert (heavy.ref, heavy.max_claims, heavy.share_keys) == (REVISION, 8, True)
    assert (heavy.trust_domain, heavy.credential_scope) == ("default", "repository")
    assert heavy.effect_scope == "owner/name"
    assert heavy.logical_contract == logical_contract(RECIPES["heavy"])


def test_settings_shape_the_policy() -> None:
    policy = proposed(
        """
        [work_queue]
        mode = "strict-priority"
        concurrency = 4
        pending_limit = 9
        accounting_weights = {a = 2}
        reconciliation = {max_attempts = 2, deadline_seconds = 7}
        [work_queue.pools.slow]
        concurrency = 1
        per_account_limit = 1
        workers = ["heavy"]
        [work_queue.pools.fast]
        """
    )
    assert policy.mode == "strict-priority"
    assert policy.accounting_weights == {"": 1, "a": 2}
    assert policy.limits.pending_nodes == 9
    slow, fast = policy.pools["slow"], policy.pools["fast"]
    assert (slow.logical_limit, slow.per_account_limit) == (1, 1)
    assert (slow.default_profile, list(slow.profiles)) == ("heavy", ["heavy"])
    assert (fast.logical_limit, fast.default_profile) == (4, "default")
    for looks in (slow.reconciliation, fast.reconciliation):
        assert (looks.max_attempts, looks.deadline_ms) == (2, 7000)


@pytest.mark.parametrize(
    ("text", "recipes", "code", "found"),
    [
        ("", {}, "worker_missing", "'default' has no worker"),
        ('[work_queue.pools.p]\nworkers = ["x"]', None, "config_invalid", "'x'"),
        ('[work_queue.pools.p]\ndefault_worker = "x"', None, "config_invalid", "'x'"),
    ],
)
def test_a_pool_without_its_worker_is_refused(
    text: str, recipes: dict[str, Recipe] | None, code: str, found: str
) -> None:
    with pytest.raises(CallboardError) as caught:
        proposed(text, recipes)
    assert caught.value.code == code
    assert found in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "[work_queue.pools.wide]"])
def test_a_pool_of_too_many_workers_is_refused_by_its_settings(text: str) -> None:
    recipes = {f"w{number}": Recipe(command=("true",)) for number in range(257)}
    with pytest.raises(CallboardError) as caught:
        proposed(text, recipes)
    pool = "wide" if text else "default"
    assert caught.value.code == "config_invalid"
    assert caught.value.message == f"pool {pool!r} has 257 workers, at most 256 are allowed"
    assert caught.value.details == {"pool": pool, "count": 257, "limit": 256}
    del recipes["w0"]
    assert len(proposed(text, recipes).pools[pool].profiles) == 256
