"""The families of reconcilers that the daemon hosts: one folder for each, built only on the library's public face.

    apps        ApplicationInstance -> Flux HelmRelease; Operation -> an object of a backup or workflow tool
    clusters    Cluster: an agent that fetches jobs from a control plane
    machines    machine pools over the shards of Nstance, in the contract of Cluster API
    pools       NextcloudPool, Nextcloud -> NextcloudInstance -> Flux HelmRelease, CloudNativePG Cluster, bucket
    quota       ResourcePool, ResourcePoolClaim -> ResourceQuota
    workspaces  WorkspaceClaim -> a workspace of kcp, a Secret with its kubeconfig
    shared      code that several families need; it imports no family

A family decides in pure code (`observe` -> frozen `Seen`, `decide` -> frozen `Plan`) and acts in one thin reconciler. No family imports
another. An import starts nothing; `install(manager, settings)` of a family adds its controllers to a manager.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.reconcilers; the folder at the root is the same room under another name")
