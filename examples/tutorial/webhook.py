"""A webhook of CronJob: a limit that depends on another object, and a warning (docs/tutorial/webhook.md)."""

import konverge as kv
from tutorial.model import CronJob

NAMESPACE = kv.kind("v1", "Namespace", namespaced=False)
SHORTEST = "tutorial.example.com/shortest-minutes"


def check(request: kv.AdmissionRequest[CronJob]) -> kv.Allow | kv.Deny:
    """Refuse a CronJob that is more frequent than its namespace allows."""
    spec = request.object.spec
    namespace = request.cache(NAMESPACE).find("", request.namespace)
    shortest = int(namespace.metadata.label(SHORTEST, "1")) if namespace else 1
    if spec.every_minutes < shortest:
        reason = f"{request.namespace} allows a Job each {shortest} minutes"
        return kv.Deny(reason, code=422, fields={"spec.everyMinutes": reason})
    deadline = spec.starting_deadline_seconds
    late = "spec.startingDeadlineSeconds is below 10: a short interruption of the operator skips a Job"
    return kv.Allow(warnings=(late,) if deadline is not None and deadline < 10 else ())


WEBHOOK = kv.Webhook.validating(CronJob).reads(NAMESPACE).handled_by(check)
