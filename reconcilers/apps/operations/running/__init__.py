"""Operations from their start to their end: the object of the engine is created if it was not, observed, and stopped if requested.

observe    the request, the place and the state of the object
give_up    when an Operation is given up: at its deadline, or if its object is lost, cannot be created, or has no engine (pure)
decide     the plan of a running Operation (pure)
act        creates, edits and stops the object
reconciler wires them

Guarantees
- The object is read only at the place that is derived from the Operation's UID; `status.engineRef` reports it, and is never followed.
- An object is created only while the stored status, read live, has its name and no record of its creation, while the Lease records the
  Operation as a holder, and only for as long as a created object still exists (`Rendered.kept`). So no engine works twice for one
  Operation.
- If the operator lacks the right to create the object, the Operation releases its target once the object has been absent for a minute.
"""

from __future__ import annotations
