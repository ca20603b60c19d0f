"""The apps family: an ApplicationInstance becomes a Flux HelmRelease, and says how it fares.

    words.py       condition types, reasons, labels, annotations
    settings.py    every number and switch
    observe.py     cache reads -> Seen
    decide.py      Seen -> Blocked, or what to apply (validate.py, secrets.py, versions.py, render.py);
                   what Flux says -> status (freshness.py, sources.py, translate.py, verdict.py, report.py, values.py, messages.py)
    uninstall.py   what is left -> the next step of an ordered uninstall
    contention.py  several instances of one Helm release -> the one that keeps it
    admission.py   the webhook: what is wrong in itself is refused before it is stored
    reconciler.py  wires them

The API: docs/reference/apps.md. Behaviour of Flux: docs/reference/flux.md,
and the recordings in tests/recordings/flux.
"""

from __future__ import annotations

from konverge.reconcilers.apps.install import controller, install, rules
from konverge.reconcilers.apps.reconciler import ApplicationInstanceReconciler
from konverge.reconcilers.apps.settings import Forbidden, Settings

__all__ = ["ApplicationInstanceReconciler", "Forbidden", "Settings", "controller", "install", "rules"]
