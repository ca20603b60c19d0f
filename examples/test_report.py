"""The test of the operator whose Jobs have typed models."""

from report_models import JOB
from report_operator import Report, ReportSpec, build

import konverge as kv
from konverge_testing import Lab


async def test_a_report_is_ready_once_its_job_has_succeeded(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Report.new("sales", spec=ReportSpec(image="report:1")))
    job = await lab.until(JOB, "sales", lambda job: job.spec.template.spec.containers[0].image == "report:1")
    assert job.to_dict()["spec"]["backoffLimit"] == 6  # a field without a model
    complete = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    await lab.patch(JOB, "sales", {"status": complete}, subresource="status")
    report = await lab.until(Report, "sales", kv.is_true("Ready"))
    assert report.status.succeeded == 1
