"""A Helm chart as an artifact of an OCI registry: the image layout that `skopeo copy oci:FOLDER:TAG` pushes and `helm pull oci://` reads.

Rules: the layout of https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md, and the media types and annotations of
Helm's registry client (https://github.com/helm/community/blob/main/hips/hip-0006.md). `helm push` would write the same manifest, but needs
the registry first: here the digest is known, and can be signed, before anything is published.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def chart_annotations(chart: Mapping[str, Any], created: str, commit: str) -> dict[str, str]:
    """Return the annotations of a chart's manifest from its Chart.yaml."""
    result = {
        "title": chart["name"],
        "version": chart["version"],
        "description": chart["description"],
        "url": chart["home"],
        "source": chart["sources"][0],
        "created": created,
        "revision": commit,
    }
    return {f"org.opencontainers.image.{name}": value for name, value in result.items()}


def layout(chart: Mapping[str, Any], archive: bytes, annotations: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files of the layout: path and content. Its tag is the version of the chart."""
    blobs: dict[str, bytes] = {}

    def blob(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(CONFIG, _json(chart)),
        "layers": [blob(CONTENT, archive)],
        "annotations": dict(annotations),
    }
    named = {**blob(MANIFEST, _json(manifest)), "annotations": {"org.opencontainers.image.ref.name": chart["version"]}}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named]}
    return {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **blobs}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
