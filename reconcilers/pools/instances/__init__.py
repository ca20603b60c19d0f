"""The objects that a NextcloudInstance materialises, and their ordered deletion.

words.py, settings.py, names.py
secrets.py      which Secrets an instance needs, and the content of generated Secrets; access.py reads the keys of S3
granted.py      the read of a Secret that a tenant may have named
databases.py    which database an instance has
postgres.py     a CloudNativePG Cluster: rendered, and its status -> whether the database is ready
backups.py      backups of the database, on a schedule; file_backups.py: copies of the files; backup_step.py keeps both
versions.py     version of Nextcloud -> chart
render.py       values, HelmRelease and source; release.py: their status -> a step
steps.py        the state of a step; steps -> phase
teardown.py     which parts may be deleted
materialise.py, dismantle.py, reconciler.py   the async shells
"""

from __future__ import annotations

from konverge.reconcilers.pools.instances.install import instance_controller
from konverge.reconcilers.pools.instances.settings import MaterialSettings

__all__ = ["MaterialSettings", "instance_controller"]
