"""The registry: the verbs of the API over storage. See `Registry`."""

from konverge_testing.apiserver.registry.core import Registry

__all__ = ["Registry"]
