"""The apps family: reconciles an ApplicationInstance into a Flux HelmRelease and reports its state.

    words.py       condition types, reasons, labels, annotations
    settings.py    every number and switch
    observe.py     cache reads -> ObservedInstance; live reads -> RemainingChildren of an uninstall
    decide.py      ObservedInstance -> Blocked, or children to apply (validate.py, secrets.py, render.py);
                   status of the Flux objects -> conditions (reconcilers/shared/helm_release, report.py, messages.py)
    uninstall.py   remaining children -> the next step of an ordered uninstall
    act.py         annotations, and deletes of a HelmRelease, whose response the next step needs
    contention.py  several instances of one Helm release -> the instance that keeps it
    admission.py   the webhook: refuses invalid specs before they are stored
    reconciler.py  wires them
    operations/    backups, restores, upgrades and commands on an instance: waiting/ until the start, running/ until the end

The API: docs/reference/apps.md. Behaviour of Flux: docs/reference/flux.md,
and the recordings in tests/recordings/flux.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.lazy import at_first_use

if TYPE_CHECKING:
    from konverge.reconcilers.apps.installation import controller, install, rules
    from konverge.reconcilers.apps.reconciler import ApplicationInstanceReconciler
    from konverge.reconcilers.apps.settings import ForbiddenVersions, Settings

__all__ = ["ApplicationInstanceReconciler", "ForbiddenVersions", "Settings", "controller", "install", "rules"]

__getattr__ = at_first_use(
    __name__,
    {
        "installation": ("controller", "install", "rules"),
        "reconciler": ("ApplicationInstanceReconciler",),
        "settings": ("ForbiddenVersions", "Settings"),
    },
)
