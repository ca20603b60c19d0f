"""Queues of a message broker, which reads its configuration from ConfigMaps (docs/guide/replay.md)."""

import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")
HOURS = {"h": 1, "d": 24, "w": 168}


class QueueSpec(kv.Model):
    retention: str = "7d"


@kv.resource("example.com/v1", conditions=("Ready",))
class Queue(kv.CustomResource[QueueSpec, kv.Status]):
    """A queue, whose messages are kept for some time."""


class QueueReconciler:
    async def reconcile(self, queue: Queue, ctx: kv.Context[Queue]) -> kv.Outcome:
        number, unit = queue.spec.retention[:-1], queue.spec.retention[-1]
        hours = int(number) * HOURS[unit]
        await ctx.own(CONFIG_MAP.new(queue.name, queue.namespace, data={"hours": str(hours)}))
        ctx.status.set_condition("Ready", True, "Configured", f"messages are kept for {hours} hours")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Queue).owns(CONFIG_MAP).reconciled_by(QueueReconciler()))
