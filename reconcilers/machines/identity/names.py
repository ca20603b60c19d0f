"""The names of the objects of an identity; apart from the keys, because the settings need no more."""

from __future__ import annotations

import msgspec

__all__ = ["IdentityNames"]


class IdentityNames(msgspec.Struct, frozen=True):
    """The objects that keep an identity, with the original operator's names."""

    ca_configmap: str = "nstance-cluster-ca"
    certificate_secret: str = "nstance-operator-cert"  # noqa: S105  # the name of an object
    key_secret: str = "nstance-operator-key"  # noqa: S105  # the name of an object
    nonce_secret: str = "nstance-operator-nonce"  # noqa: S105  # the name of an object
