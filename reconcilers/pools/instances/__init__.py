"""The objects that a NextcloudInstance materialises, and their ordered deletion.

    words.py, settings.py, names.py
    observe.py      reads: Secrets, the Cluster, the release, the map of versions
    decide.py       observed objects -> the state of a step. Pure
    act.py          the writes that create the parts; the next decision needs their results
    status.py       phase, conditions and Events. Pure
    reconciler.py   the order of the steps
    teardown/       the deletion, in the same files
    steps.py        the state of a step; ownership.py: whether an object belongs to the instance

Parts, rendered and translated to a state, all pure:

    secrets.py      the needed Secrets and the content of generated Secrets; access.py: the keys of S3
    databases.py    which database an instance has; postgres.py: a CloudNativePG Cluster
    backups.py      backups of the database; file_backups.py: copies of the files
    versions.py     version of Nextcloud -> chart
    render.py       values, HelmRelease and source; release.py: their status -> a step
"""

from __future__ import annotations

from konverge.reconcilers.pools.instances.settings import MaterialSettings

__all__ = ["MaterialSettings"]
