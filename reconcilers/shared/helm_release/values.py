"""Values in a Secret or ConfigMap: their state, and the requests that make Flux read them again.

Editing them changes no generation, and helm-controller watches only objects that carry a label of its own
(docs/reference/flux.md#freshness). So a token contains the referent's uid and resourceVersion; when it changes, the token is written
into `reconcile.fluxcd.io/requestedAt`, which requests a reconcile from Flux.

Invariants: the applied intent does not contain that annotation, because `flux reconcile` writes it too. So such a request is never a
conflict, and never overwritten by a repeated request of this family, because a second annotation holds the last token. The content of
the values is never read into this module, only the existence of the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from konverge.fields import digest
from konverge.objects import Metadata
from konverge.reconcilers.shared.helm_release.freshness import FluxRelease
from konverge.reconcilers.shared.helm_release.words import Flux, ReleaseAnnotation

__all__ = ["ValuesFrom", "request_annotations", "token_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesFrom:
    """The state of the Secret or ConfigMap with the values. `has_key` is None until the key was checked."""

    kind: str
    namespace: str
    name: str
    key: str
    token: str = ""
    has_key: bool | None = None

    @property
    def exists(self) -> bool:
        """Whether the object exists."""
        return bool(self.token)

    @property
    def lacking(self) -> bool:
        """Whether the object, or its key, is known to be missing."""
        return not self.exists or self.has_key is False


def token_of(metadata: Metadata | None) -> str:
    """Return the token of an object's state, "" for None.

    >>> token_of(None)
    ''
    """
    if metadata is None:
        return ""
    return f"values-{digest([metadata.uid, metadata.resource_version])}"


def request_annotations(values: ValuesFrom | None, before: FluxRelease | None, recorded: str) -> Mapping[str, str]:
    """Return the annotations to write on the HelmRelease about its values; empty without a change of them.

    `before` is the release before this reconcile, None if this reconcile created it (Flux then reads the present values anyway),
    `recorded` the token that it was last annotated with.
    """
    if values is None or not values.exists or recorded == values.token:
        return {}
    note = {ReleaseAnnotation.VALUES_TOKEN: values.token}
    if before is None or values.token in (before.requested, before.handled):
        return note
    return {**note, Flux.REQUESTED_AT: values.token}
