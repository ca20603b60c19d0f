"""The families of reconcilers that the daemon hosts: one folder for each, built only on the library's public face.

    apps    ApplicationInstance -> Flux HelmRelease
    quota   ResourcePool, ResourcePoolClaim -> ResourceQuota

A family decides in pure code (`observe` -> frozen `Seen`, `decide` -> frozen `Plan`) and acts in one thin reconciler. Families do not
know each other. Importing one starts nothing; its `install(manager, settings)` adds its controllers to a manager.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.reconcilers; the folder at the root is the same room under another name")
