"""A Job for each Report and each night (docs/how-to/every-night.md)."""

from datetime import timedelta

import konverge as kv

JOB = kv.kind("batch/v1", "Job")
KEPT_SECONDS = 2 * 86400
"""Longer than a day: the Job of the present night must not be deleted and created again."""


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Report(kv.CustomResource[kv.Model, kv.Status]):
    """A report that is written at 03:00 UTC."""


class ReportReconciler:
    async def reconcile(self, report: Report, ctx: kv.Context[Report]) -> kv.Outcome:
        night = (ctx.now() - timedelta(hours=3)).date()  # the last 03:00
        container = {"name": "report", "image": "report", "args": [night.isoformat()]}
        spec = {
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        }
        await ctx.own(JOB.new(f"{report.name}-{night}", report.namespace, spec=spec))
        ctx.status.set_condition("Ready", True, "Scheduled", f"the last night is {night}")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    controller = kv.Controller.of(Report).owns(JOB).listens_to(kv.daily("03:00", zone="UTC"))
    manager.add(controller.reconciled_by(ReportReconciler()))
