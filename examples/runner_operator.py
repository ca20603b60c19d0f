"""Runs that share runners: one guarded write decides which run gets a free runner (docs/guide/reconcilers.md)."""

from collections.abc import Iterable

import konverge as kv

RUNNER = kv.kind("v1", "ConfigMap")
LABEL = "example.com/runner"
TAKEN_BY = "example.com/taken-by"


class RunSpec(kv.Model):
    command: str = ""


class RunStatus(kv.Status):
    runner: str | None = None


@kv.resource("example.com/v1", conditions=("Ready",))
class Run(kv.CustomResource[RunSpec, RunStatus]):
    """A command that needs a runner of its own."""


def runs_beside(runner: kv.Object, caches: kv.Caches) -> Iterable[kv.Key]:
    return caches(Run).keys(namespace=runner.namespace)


class RunReconciler:
    async def reconcile(self, run: Run, ctx: kv.Context[Run]) -> kv.Outcome:
        runners = {r.metadata.annotation(TAKEN_BY): r for r in ctx.cache(RUNNER).list(run.namespace)}
        mine, free = runners.get(run.uid), runners.get("")
        if mine is None:
            if free is None:
                ctx.status.set_condition("Ready", False, "NoRunner", f"add a ConfigMap with the label {LABEL}")
                return kv.Done()  # a new runner enqueues each run
            try:
                mine = await ctx.patch(RUNNER, expect=free, patch={"metadata": {"annotations": {TAKEN_BY: run.uid}}})
            except kv.ObjectChanged:  # another run took it, or it was deleted: nothing was written
                return kv.RequeueAfter(1)
        ctx.status.draft.runner = mine.name
        ctx.status.set_condition("Ready", True, "RunnerTaken", f"{mine.name} executes it")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(
        kv.Controller.of(Run)
        .watches(RUNNER, to=runs_beside, labels=LABEL)
        .needs(kv.Rule("", ("configmaps",), ("patch",)))
        .reconciled_by(RunReconciler())
    )
