"""Reconcile 3 of Queue lab/orders by queue ended in KeyError: 'w'

Recorded 2030-01-01T00:00:00.320000Z by queue-operator (konverge 0.1.0.dev0), written by konverge replay --as-test.
The test fails while the reconcile ends as recorded. Replace its last line by the state that you expect.
"""

from queue_operator import build

from konverge_testing import Lab
from konverge_testing.replay import Restored

KINDS = {("example.com/v1", "Queue"): ("queues", True), ("v1", "ConfigMap"): ("configmaps", True)}

BEFORE = """\
apiVersion: example.com/v1
kind: Queue
metadata:
  name: orders
  namespace: lab
  uid: 5a0045f7-fec1-4ee9-b820-7eceb28378c6
status:
  observedGeneration: 1
  conditions:
  - type: Ready
    status: 'True'
    reason: Configured
    message: messages are kept for 168 hours
    lastTransitionTime: '2030-01-01T00:00:00Z'
    observedGeneration: 1
spec:
  retention: 7d
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: orders
  namespace: lab
  ownerReferences:
  - apiVersion: example.com/v1
    kind: Queue
    name: orders
    uid: 5a0045f7-fec1-4ee9-b820-7eceb28378c6
    controller: true
    blockOwnerDeletion: true
  uid: ca5b9bf5-d58c-41e2-af1f-c2f46887bb54
data:
  hours: '168'
"""


async def test_queue_orders_key_error_is_not_repeated(lab: Lab) -> None:
    restored = await Restored.begin(
        lab, build, operator="queue-operator", namespace="lab", began="2030-01-01T00:00:00.000000Z", kinds=KINDS
    )
    await restored.create(BEFORE)
    await restored.start()
    await restored.patch("example.com/v1", "Queue", "lab", "orders", {"spec": {"retention": "2w"}})
    assert "KeyError" not in restored.outcomes("queue", "lab", "orders"), "it ends as recorded"
