"""Reports that Jobs write; the Jobs have typed models (docs/guide/models.md)."""

from report_models import JOB, Container, Job, JobSpec, PodSpec, PodTemplateSpec

import konverge as kv


class ReportSpec(kv.Model):
    image: str


class ReportStatus(kv.Status):
    succeeded: int = 0


@kv.resource("example.com/v1", conditions=("Ready",))
class Report(kv.CustomResource[ReportSpec, ReportStatus]):
    """A report that a Job writes."""


class ReportReconciler:
    async def reconcile(self, report: Report, ctx: kv.Context[Report]) -> kv.Outcome:
        job = await ctx.own(job_of(report))
        ctx.status.draft.succeeded = job.status.succeeded or 0
        failed = job.find_condition("Failed")
        if failed is not None and failed.is_true:
            ctx.status.set_condition("Ready", False, "JobFailed", failed.message)
        else:
            ctx.status.set_condition("Ready", kv.is_true("Complete")(job), "JobObserved")
        return kv.Done()


def job_of(report: Report) -> Job:
    writer = Container(name="writer", image=report.spec.image)
    pod = PodSpec(containers=[writer], restart_policy="Never")
    return JOB.new(report.name, report.namespace, spec=JobSpec(template=PodTemplateSpec(spec=pod)))


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Report).owns(JOB).reconciled_by(ReportReconciler()))


if __name__ == "__main__":
    kv.run(build, name="report-operator")
