"""The identity of the operator: an Ed25519 key, and the certificate that the servers of Nstance issue for it.

certificates  keys and certificates: generated, read, checked (pure)
names         the names of its objects
decide        the next step of an enrolment, and when to renew (pure)
store         the Secrets and the ConfigMap of the identity
enrolment     the shell: a nonce becomes a certificate, a certificate is renewed
link          identity and connections together, as background work
"""

from __future__ import annotations
