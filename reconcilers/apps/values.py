"""Values that live in a Secret or ConfigMap: what is known of them, and when Flux is asked to read them again.

Editing them changes no generation anywhere, and helm-controller watches only those that carry a label of its own
(docs/reference/flux.md#freshness). So the state of the referent, its uid and resourceVersion, becomes a token; where it changes, the
token is written into `reconcile.fluxcd.io/requestedAt`, which asks Flux for a reconcile.

Invariants: that annotation is no part of the applied intent, because people write it too (`flux reconcile`); a human's request is
never a conflict, and never answered by another of ours, because the last token is remembered beside it. Content never comes here: only
whether the key exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from konverge.fields import digest
from konverge.objects import Metadata
from konverge.reconcilers.apps.freshness import Release
from konverge.reconcilers.apps.words import Annotation, Flux

__all__ = ["ValuesFrom", "requests", "token_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesFrom:
    """The Secret or ConfigMap with the values, as far as it is known. `has_key` None: nobody looked."""

    kind: str
    namespace: str
    name: str
    key: str
    token: str = ""
    has_key: bool | None = None

    @property
    def exists(self) -> bool:
        """Whether the object is there."""
        return bool(self.token)

    @property
    def lacking(self) -> bool:
        """Whether it is sure that there are no values to read."""
        return not self.exists or self.has_key is False


def token_of(metadata: Metadata | None) -> str:
    """Return the token of an object's state, "" where there is none.

    >>> token_of(None)
    ''
    """
    if metadata is None:
        return ""
    return f"values-{digest([metadata.uid, metadata.resource_version])}"


def requests(values: ValuesFrom | None, before: Release | None, recorded: str) -> Mapping[str, str]:
    """Return the annotations to write on the HelmRelease about its values; empty where there is nothing to ask.

    `before` is the release as it was before this pass, None where this pass made it (Flux then reads the present values anyway),
    `recorded` the token that was last noted on it.
    """
    if values is None or not values.exists or recorded == values.token:
        return {}
    note = {Annotation.VALUES_TOKEN: values.token}
    if before is None or values.token in (before.requested, before.handled):
        return note
    return {**note, Flux.REQUESTED_AT: values.token}
