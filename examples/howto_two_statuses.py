"""Two controllers that write different conditions of one status (docs/how-to/two-statuses.md)."""

import konverge as kv


@kv.resource("howto.example.com/v1", conditions=("Published", "Reachable"))
class Host(kv.CustomResource[kv.Model, kv.Status]):
    """A host with a name that is published."""


class Publisher:
    async def reconcile(self, _: Host, ctx: kv.Context[Host]) -> kv.Outcome:
        ctx.status.set_condition("Published", True, "NameWritten")
        return kv.Done()


class Prober:
    async def reconcile(self, _: Host, ctx: kv.Context[Host]) -> kv.Outcome:
        ctx.status.set_condition("Reachable", True, "ResponseReceived")
        return kv.RequeueAfter(60)


def build(manager: kv.Manager) -> None:
    hosts = kv.Controller.of(Host)
    manager.add(hosts.named("publisher").writes_status_as("publisher").reconciled_by(Publisher()))
    manager.add(hosts.named("prober").writes_status_as("prober").reconciled_by(Prober()))
