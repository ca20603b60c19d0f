"""Operations: one action on an ApplicationInstance, performed by an engine.

- `words.py`: condition types, reasons, labels and annotations; `settings.py`: every number and switch.
- `validate.py`: whether a spec can ever work; `admission.py`: the webhook that refuses one that cannot.
- `decide.py`: the preconditions in their order; `conflicts.py`: the matrix and the line; `approval.py`: claims.
- `policy.py`: what the namespace and the target allow; `windows.py`: maintenance windows.
- `turns.py` and `lease.py`: the Lease of a target, and taking a turn by compare-and-swap.
- `child.py`: the object of an engine, how it is made, found and stopped; `report.py`: phase and conditions; `history.py`: retention.
- `metrics.py`: how many there are, how they ended, how long that took.
- `reconciler.py`: the async shell: `start.py` until the claim, `follow.py` from then to the end (`stop.py`: why it stops);
  `engine_request.py`: the requests to engines, with the objects that they need.
- `indexes.py` and `install.py`: watches and rights.
- `engines/`: one file for each engine, and `registry.py` with a row for each type.

The API, the order and the rows of the tests: docs/reference/operations.md.
"""
