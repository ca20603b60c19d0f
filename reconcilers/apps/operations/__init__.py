"""Operations: one action on an ApplicationInstance, performed by an engine.

- `waiting/`: before the start: preconditions (approval, readiness, conflicts, policy, windows), and the hold on the target.
- `running/`: from the start to the end: the object of the engine, and when an Operation is given up (`give_up.py`).
- `reconciler.py`: selects the phase, executes its plan, and deletes ended Operations; `history.py`: when. `moments.py`: times and memory.
- `words.py`: condition types, reasons, labels and annotations; `settings.py`: every number and switch; `report.py`: phase and conditions.
- `validate.py` and `edits.py`: whether a spec can ever work; `admission.py`: the webhook that refuses a spec that cannot.
- `engine_request.py`: the requests to engines, with the objects that they need; `engines/`: one file for each engine, and `registry.py`.
- `child.py`: the object of an engine, how it is labelled, found, edited and stopped; `pods.py`: why none of its pods runs.
- `metrics.py`: how many Operations exist, how they ended, and how long that took. `indexes.py` and `install.py`: watches and rights.

The API, the order and the rows of the tests: docs/reference/operations.md.
"""
