"""Pod Security admission: the levels privileged, baseline and restricted of a namespace, by its labels `pod-security.kubernetes.io/...`.

Guarantees: pure apart from reading namespaces and pods. The plugin refuses pods (enforce) or warns of them (warn); of workloads with a pod
template it only warns; if the level of a namespace rises, it warns of existing pods. The rules and messages are from
k8s.io/pod-security-admission `{admission,api,policy}`, with a real server's default configuration: privileged for every namespace without
labels, and no exemptions.

Caveats: `audit` labels are validated and have no other effect, since this server writes no audit log.
"""

from __future__ import annotations

from konverge_testing.apiserver.admission.podsecurity.plugin import PodSecurity

__all__ = ["PodSecurity"]
