"""Operations: one action on an ApplicationInstance, performed by an engine.

- `words.py`: condition types, reasons, labels and annotations; `settings.py`: every number and switch.
- `validate.py`: whether a spec can ever work; `admission.py`: the webhook that refuses a spec that cannot.
- `decide.py`: the preconditions in their order; `conflicts.py`: the matrix and the queue; `approval.py`: claims.
- `policy.py`: the limits of the namespace and the target; `windows.py`: maintenance windows.
- `turns.py` and `lease.py`: the Lease with the holders of targets, and the compare-and-swap that adds an Operation to them.
- `child.py`: the object of an engine, how it is created, found and stopped; `report.py`: phase and conditions; `history.py`: retention.
- `metrics.py`: how many Operations there are, how they ended, and how long that took.
- `reconciler.py`: the async shell: `start.py` until the claim, `follow.py` from then to the end (`stop.py`: the reason to stop);
  `engine_request.py`: the requests to engines, with the objects that they need.
- `indexes.py` and `install.py`: watches and rights.
- `engines/`: one file for each engine, and `registry.py` with a row for each type.

The API, the order and the rows of the tests: docs/reference/operations.md.
"""
