"""The record of a finished rollout: annotations on the HelmRelease, to compare with a later status of Flux.

Guarantees: pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from konverge.reconcilers.shared.helm_release.facts import ReleaseFacts, Translation
from konverge.reconcilers.shared.helm_release.words import ReleaseAnnotation

__all__ = ["rollout_annotations"]


def rollout_annotations(facts: ReleaseFacts, translation: Translation, generation: int) -> Mapping[str, str]:
    """Return the annotations that record a rolled-out intent of this generation; empty if the release has them already."""
    release = facts.release
    if release is None or not translation.rolled_out:
        return {}
    repository = facts.sources.repository
    annotations = {
        ReleaseAnnotation.INTENT_HASH: facts.desired.intent,
        ReleaseAnnotation.APPLIED_GENERATION: str(generation),
        ReleaseAnnotation.APPLIED_SOURCE: f"{facts.desired.source}@{repository.fetch_id}"
        if repository is not None
        else "",
    }
    present = {
        ReleaseAnnotation.INTENT_HASH: release.rolled_out_intent,
        ReleaseAnnotation.APPLIED_GENERATION: release.rolled_out_generation,
        ReleaseAnnotation.APPLIED_SOURCE: release.rolled_out_source,
    }
    if facts.held:  # another manager may have changed the source; the earlier record stays
        del annotations[ReleaseAnnotation.APPLIED_SOURCE], present[ReleaseAnnotation.APPLIED_SOURCE]
    return {} if annotations == present else annotations
