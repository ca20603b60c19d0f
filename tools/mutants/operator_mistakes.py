"""Mistakes of operator writers, planted one by one in the operators of testkit/tests/scenarios/lab and examples. Only data.

Each names the oracle that finds it; testkit/docs/lab.md describes the oracles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from planting import Mutant

__all__ = ["MISTAKES", "ORACLES", "Mistake"]

ORACLES: Final = {
    "the end": r"^the end state differs",
    "effort": r" was (created|deleted) \d+ times, in the reference run",
    "rest": r"writes after convergence|not converged",
    "safety": r"vanished|went back",
    "errors": r"^unhandled |^the scenario failed: UsageError|the run broke off|fails again and again|never awaited|blocks the event loop",
    "rights": r"declares no rule for",
    "silence": r"the error is swallowed",
    "yours": r"^the scenario's own expectation failed",
}
"""The words of each oracle's report."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in an operator, the scenario that plays the operator, and the oracle that finds the mistake.

    `plan` is a part of the name of the plan that finds it, "" for the undisturbed run.
    """

    mutant: Mutant
    scenario: str
    oracle: str
    plan: str = ""


CACHE: Final = "testkit.tests.scenarios.lab.test_redis_operator"
TEAM: Final = "examples.team_operator"
RATE: Final = "testkit.tests.scenarios.lab.test_rates_operator"
BUCKET: Final = "testkit.tests.scenarios.lab.test_external_service"
SCALED: Final = f"{CACHE}:test_a_cache_is_scaled_and_saved_before_it_goes"
KEPT: Final = "testkit.tests.scenarios.lab.test_team_operator:test_a_team_keeps_its_quota_when_its_namespace_is_deleted"
FETCHED: Final = f"{RATE}:test_each_rate_is_fetched_each_hour_within_the_limit"
STORED: Final = f"{BUCKET}:test_a_bucket_exists_in_the_service_as_long_as_its_object"
RECONCILE: Final = "CacheReconciler.reconcile"

MISTAKES: Final = (
    Mistake(
        Mutant(
            "operator-missing-rule",
            "a request for which the operator declares no rule",
            CACHE,
            RECONCILE,
            "await ctx.own(service(cache))",
            "await ctx.own(service(cache))\n"
            "await ctx.patch(SECRET, cache.name, cache.namespace, patch={'metadata': {'labels': {'cache': cache.name}}})",
        ),
        SCALED,
        "rights",
    ),
    Mistake(
        Mutant(
            "operator-missing-rule-swallowed",
            "a request without a rule whose refusal the operator ignores",
            CACHE,
            RECONCILE,
            "await ctx.own(service(cache))",
            "await ctx.own(service(cache))\n"
            "try:\n    await ctx.delete(SECRET, 'old', cache.namespace)\nexcept kv.Forbidden:\n    pass",
        ),
        SCALED,
        "rights",
    ),
    Mistake(
        Mutant(
            "operator-missing-owner-reference",
            "a child without owner reference, whose deletion enqueues nothing",
            CACHE,
            RECONCILE,
            "await ctx.own(service(cache))",
            "await ctx.apply(service(cache), force=True)",
        ),
        SCALED,
        "the end",
        "services lab/sessions: delete by hand",
    ),
    Mistake(
        Mutant(
            "operator-no-finalizer",
            "a finalize that no finalizer calls",
            CACHE,
            "build",
            "kv.Controller.of(Cache).owns(STATEFUL_SET).owns(SERVICE).owns(JOB)"
            ".watches(SECRET, to=caches_of, metadata_only=True).finalizer('example.com/save')",
            "kv.Controller.of(Cache).owns(STATEFUL_SET).owns(SERVICE).owns(JOB)"
            ".watches(SECRET, to=caches_of, metadata_only=True)",
        ),
        SCALED,
        "errors",
    ),
    Mistake(
        Mutant(
            "operator-missing-watch",
            "a kind that is read from a cache and not watched",
            CACHE,
            "build",
            "kv.Controller.of(Cache).owns(STATEFUL_SET).owns(SERVICE).owns(JOB)"
            ".watches(SECRET, to=caches_of, metadata_only=True)",
            "kv.Controller.of(Cache).owns(STATEFUL_SET).owns(SERVICE).owns(JOB)",
        ),
        SCALED,
        "errors",
    ),
    Mistake(
        Mutant(
            "operator-wrong-mapping",
            "a Secret that enqueues every cache but the one that uses it",
            CACHE,
            "caches_of",
            "key.name == secret.name",
            "key.name != secret.name",
        ),
        SCALED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-finalize-does-not-wait",
            "a finalizer that goes before its Job has succeeded",
            CACHE,
            "CacheReconciler.finalize",
            "kv.RequeueAfter(30)",
            "kv.Done()",
        ),
        SCALED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-changing-name",
            "a child whose name changes from reconcile to reconcile",
            CACHE,
            "saving",
            "f'{cache.name}-save'",
            "f'{cache.name}-save-{cache.metadata.resource_version}'",
        ),
        SCALED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-time-in-condition",
            "a message that differs in each reconcile",
            TEAM,
            "TeamReconciler.reconcile",
            "f'the team works in namespace {namespace.name}'",
            "f'the team works in namespace {namespace.name} since {ctx.now()}'",
        ),
        KEPT,
        "rest",
    ),
    Mistake(
        Mutant(
            "operator-forgotten-await",
            "a child that is never sent",
            CACHE,
            RECONCILE,
            "await ctx.own(service(cache))",
            "ctx.own(service(cache))",
        ),
        SCALED,
        "errors",
    ),
    Mistake(
        Mutant(
            "operator-foreign-namespace",
            "a child in a namespace in which its owner is unknown",
            CACHE,
            "service",
            "SERVICE.new(cache.name, cache.namespace, spec=spec)",
            "SERVICE.new(cache.name, 'default', spec=spec)",
        ),
        SCALED,
        "errors",
    ),
    Mistake(
        Mutant(
            "operator-condition-removed",
            "a condition that goes while the operator waits",
            CACHE,
            RECONCILE,
            "ctx.status.set_condition('Ready', False, 'Starting', f'{ready} of {cache.spec.replicas} replicas are ready')",
            "ctx.status.remove_condition('Ready')",
        ),
        SCALED,
        "safety",
    ),
    Mistake(
        Mutant(
            "operator-condition-not-cleared",
            "a condition that stays True after the state has changed",
            CACHE,
            RECONCILE,
            "ctx.status.set_condition('Ready', False, 'Starting', f'{ready} of {cache.spec.replicas} replicas are ready')",
            "pass",
        ),
        SCALED,
        "safety",
        "is answered with 422",
    ),
    Mistake(
        Mutant(
            "operator-wall-clock",
            "the clock of the machine in the place of ctx.now()",
            RATE,
            "RateReconciler.reconcile",
            "ctx.now()",
            "datetime.now().astimezone()",
        ),
        FETCHED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-no-requeue",
            "a reconcile that does not ask for the next one",
            RATE,
            "RateReconciler.reconcile",
            "return kv.RequeueAfter(rate.spec.every)",
            "return kv.Done()",
        ),
        FETCHED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-retry-after-ignored",
            "a retry each second in spite of Retry-After",
            RATE,
            "RateReconciler._fetch",
            "float(response.headers['Retry-After'])",
            "1.0",
        ),
        FETCHED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-name-collision",
            "two objects with one name in a service",
            BUCKET,
            "BucketReconciler._call",
            "f'{self._service}/buckets/{bucket.name}'",
            "f'{self._service}/buckets/{bucket.namespace}'",
        ),
        STORED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-external-left-behind",
            "a finalize that leaves the external object",
            BUCKET,
            "BucketReconciler.finalize",
            "await self._call('DELETE', bucket)",
            "pass",
        ),
        STORED,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-blocking-call",
            "a call that blocks the event loop",
            CACHE,
            RECONCILE,
            "await ctx.own(service(cache))",
            "__import__('time').sleep(1)\nawait ctx.own(service(cache))",
        ),
        SCALED,
        "errors",
    ),
    Mistake(
        Mutant(
            "operator-no-outcome",
            "a finalize that returns nothing",
            BUCKET,
            "BucketReconciler.finalize",
            "return kv.Done()",
            "pass",
        ),
        STORED,
        "errors",
    ),
    Mistake(
        Mutant(
            "operator-create-only",
            "a child that is created and never changed",
            TEAM,
            "TeamReconciler.reconcile",
            "await ctx.own(QUOTA.new('pods', namespace.name, spec={'hard': {'pods': str(10 * team.spec.members)}}))",
            "if ctx.cache(QUOTA).find(namespace.name, 'pods') is None:\n"
            "    await ctx.own(QUOTA.new('pods', namespace.name, spec={'hard': {'pods': str(10 * team.spec.members)}}))",
        ),
        KEPT,
        "yours",
    ),
    Mistake(
        Mutant(
            "operator-swallowed-error",
            "an error of the API that ends the reconcile as Done",
            CACHE,
            RECONCILE,
            "stored = await ctx.own(stateful_set(cache))",
            "try:\n    stored = await ctx.own(stateful_set(cache))\nexcept kv.ApiError:\n    return kv.Done()",
        ),
        SCALED,
        "silence",
        "is answered with 500",
    ),
    Mistake(
        Mutant(
            "operator-generation-check",
            "a check of the generation that skips the repair of a child",
            TEAM,
            "TeamReconciler.reconcile",
            "namespace = await ctx.own(NAMESPACE.new(f'team-{team.name}'))",
            "if team.status.observed_generation == team.metadata.generation:\n    return kv.Done()\n"
            "namespace = await ctx.own(NAMESPACE.new(f'team-{team.name}'))",
        ),
        KEPT,
        "yours",
    ),
)
