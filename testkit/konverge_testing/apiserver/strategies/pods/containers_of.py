"""Iteration over the containers of a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["containers_at", "containers_of"]


def containers_of(spec: Mapping[str, Any], *kinds: str) -> Iterator[dict[str, Any]]:
    """Iterate over containers, init containers and ephemeral containers, or over the containers of the given fields."""
    for kind in kinds or ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def containers_at(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over all containers with their paths: init containers first, as kube-apiserver visits them."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"{path}.{kind}[{index}]", container
