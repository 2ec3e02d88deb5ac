"""The policy that settings and worker recipes propose.

Source: specification 1, §7.1; wire-v3 §10 (default policy). Pure: the caller has read settings and
recipes from one commit. It is written once, with the first submission or a later installation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import UNSET, structs

from callboard.board.protocol.policy import (
    CEILINGS,
    Limits,
    PolicyDocument,
    Pool,
    Profile,
    Reconciliation,
    Retry,
)
from callboard.board.protocol.rules import policy_faults
from callboard.board.publishing.config import PoolSettings, QueueSettings
from callboard.board.publishing.recipe import MAX_RECIPES, Recipe, logical_contract, recipe_path
from callboard.errors import CallboardError
from callboard.validate import refuse

CLASS_WEIGHTS = [8, 4, 2, 1, 1]
DEFAULT_POOL = "default"
DEFAULT_WORKER = "default"
TRUST_DOMAIN = "default"
CREDENTIAL_SCOPE = "repository"
MAX_OBSERVATION_AGE_MS = 60_000


def default_pool(pools: Collection[str]) -> str | None:
    """The pool that is meant where none is named: `default`, else the only one there is."""
    if DEFAULT_POOL in pools:
        return DEFAULT_POOL
    return next(iter(pools)) if len(pools) == 1 else None


def propose_policy(
    settings: QueueSettings, recipes: Mapping[str, Recipe], *, repository: str, revision: str
) -> PolicyDocument:
    """The policy of `settings` with every recipe of `revision` as a profile.

    `recipes` maps worker names to what they are at `revision`. Raises `worker_missing` where a
    pool would have no worker, `config_invalid` where a named worker does not exist
    or a pool would have more than `MAX_RECIPES`.
    """
    pools = settings.pools if isinstance(settings.pools, dict) else {DEFAULT_POOL: PoolSettings()}
    weights = settings.accounting_weights
    policy = PolicyDocument(
        mode=settings.mode,
        class_weights=list(CLASS_WEIGHTS),
        accounting_weights={"": 1, **weights} if isinstance(weights, dict) else {"": 1},
        authorization="aw",
        producers={},
        pools={
            name: _pool(name, pool, settings, recipes, repository, revision)
            for name, pool in pools.items()
        },
        limits=_limits(settings),
    )
    faults = policy_faults(policy)
    if faults:
        raise refuse("policy_invalid", "the proposed policy", faults, "correct the settings")
    return policy


def _limits(settings: QueueSettings) -> Limits:
    return structs.replace(CEILINGS, pending_nodes=settings.pending_limit)


def _pool(
    name: str,
    pool: PoolSettings,
    settings: QueueSettings,
    recipes: Mapping[str, Recipe],
    repository: str,
    revision: str,
) -> Pool:
    names = sorted(recipes) if pool.workers is UNSET else pool.workers
    unknown = [one for one in names if one not in recipes]
    if unknown or not names:
        raise _no_worker(name, unknown, recipes)
    if len(names) > MAX_RECIPES:
        raise CallboardError(
            "config_invalid",
            f"pool {name!r} has {len(names)} workers, at most {MAX_RECIPES} are allowed",
            "name the pool's workers in the settings, or remove recipes",
            {"pool": name, "count": len(names), "limit": MAX_RECIPES},
        )
    concurrency = pool.concurrency if isinstance(pool.concurrency, int) else settings.concurrency
    return Pool(
        default_profile=_default_worker(name, pool, names),
        profiles={one: _profile(one, recipes[one], repository, revision) for one in names},
        logical_limit=concurrency,
        native_limit=concurrency,
        per_account_limit=pool.per_account_limit,
        allowed_repositories=[repository],
        max_observation_age_ms=MAX_OBSERVATION_AGE_MS,
        retry=Retry(
            max_attempts=settings.retry.max_attempts,
            backoff_ms=settings.retry.backoff_seconds * 1000,
        ),
        reconciliation=Reconciliation(
            max_attempts=settings.reconciliation.max_attempts,
            deadline_ms=settings.reconciliation.deadline_seconds * 1000,
        ),
    )


def _no_worker(pool: str, unknown: list[str], recipes: Mapping[str, Recipe]) -> CallboardError:
    if unknown:
        return CallboardError(
            "config_invalid",
            f"pool {pool!r} names the worker {unknown[0]!r}, which has no recipe",
            "workers: " + (", ".join(sorted(recipes)) or "none"),
            {"pool": pool, "workers": unknown},
        )
    return CallboardError(
        "worker_missing",
        f"pool {pool!r} has no worker: no recipe .callboard/workers/<name>.toml is committed",
        "write one (callboard init makes a starter) and commit it",
        {"pool": pool},
    )


def _default_worker(pool: str, settings: PoolSettings, names: list[str]) -> str:
    if isinstance(settings.default_worker, str):
        if settings.default_worker not in names:
            raise CallboardError(
                "config_invalid",
                f"pool {pool!r} has the default worker {settings.default_worker!r}, which is not "
                "one of its workers",
                "workers: " + ", ".join(names),
            )
        return settings.default_worker
    return DEFAULT_WORKER if DEFAULT_WORKER in names else names[0]


def _profile(name: str, recipe: Recipe, repository: str, revision: str) -> Profile:
    return Profile(
        workflow=recipe_path(name),
        ref=revision,
        trust_domain=TRUST_DOMAIN,
        credential_scope=CREDENTIAL_SCOPE,
        effect_scope=repository,
        max_claims=recipe.max_claims,
        share_keys=recipe.share_keys,
        logical_contract=logical_contract(recipe),
    )
