"""The reconciler: it carries out the decision, and reports the status (docs/tutorial/reconcile.md)."""

import konverge as kv
from tutorial.clock import seconds_until_next
from tutorial.decide import decide
from tutorial.jobs import JOB, job_of
from tutorial.model import CronJob


class Reconciler:
    async def reconcile(self, cron: CronJob, ctx: kv.Context[CronJob]) -> kv.Outcome:
        """Bring the Jobs to the spec; called after each change of the CronJob or of its Jobs, and at each due time."""
        now = ctx.now()
        decision = decide(cron, ctx.cache(JOB).by_index("owner", cron.metadata.uid), now)
        for job in decision.deletes:
            await ctx.delete(JOB, job.name, job.namespace)
        if decision.due is not None:
            await ctx.own(job_of(cron, decision.due))
        ctx.status.draft.last_schedule_time = decision.last or None
        ctx.status.draft.active = list(decision.active) or None
        ctx.status.set_condition("Ready", True, "Suspended" if cron.spec.suspend else "Scheduled")
        return kv.Done() if cron.spec.suspend else kv.RequeueAfter(seconds_until_next(cron.spec, now))


def state_of(cron: kv.Object) -> list[tuple[str]]:
    """Return the state under which the metric counts a CronJob (docs/tutorial/metrics.md)."""
    if cron.get("spec", "suspend", default=False):
        return [("suspended",)]
    return [("active" if cron.get("status", "active", default=None) else "waiting",)]


CONTROLLER = (
    kv.Controller.of(CronJob)
    .owns(JOB)
    .counts_conditions()
    .counts_objects("tutorial_cronjobs", "CronJobs by state", labels=("state",), by=state_of)
    .reconciled_by(Reconciler())
)
