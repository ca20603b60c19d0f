"""Checksums of a release, and its provenance: an in-toto statement with the predicate of SLSA, not signed.

Rules: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and https://slsa.dev/spec/v1.0/provenance. The forge signs the
checksums and a provenance of its own (.github/workflows/release.yml). This statement adds facts that the forge lacks: the locks and the base
image of the build.
"""

import re
from collections.abc import Mapping
from typing import Any

_BASE = re.compile(r"^ARG PYTHON=(?P<name>[\w./-]+):(?P<tag>[\w.-]+)@sha256:(?P<digest>[0-9a-f]{64})$", re.MULTILINE)


def checksums(digests: Mapping[str, str]) -> str:
    """Return the lines that `sha256sum --check` reads, from the sha256 of each file."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def base_image(containerfile: str) -> tuple[str, str]:
    """Return the package URL and the sha256 of the base image; raises ValueError if the file names no digest."""
    match = _BASE.search(containerfile)
    if match is None:
        raise ValueError(
            "deploy/Containerfile names no base by digest (ARG PYTHON=name:tag@sha256:...): see docs/guide/deploy.md"
        )
    return f"pkg:docker/{match['name']}@{match['tag']}", match["digest"]


def provenance(
    digests: Mapping[str, str], *, repository: str, tag: str, commit: str, builder: str, materials: Mapping[str, str]
) -> dict[str, Any]:
    """Return the statement about files, from the sha256 of each; materials are the sha256 of what was built in, by URI."""
    page = f"{repository}/blob/{tag}/docs/maintaining.md"
    source = {"uri": f"git+{repository}@refs/tags/{tag}", "digest": {"gitCommit": commit}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{page}#files-of-a-release",
                "externalParameters": {
                    "repository": repository,
                    "ref": f"refs/tags/{tag}",
                    "verb": "make release-files",
                },
                "resolvedDependencies": [
                    source,
                    *({"uri": uri, "digest": {"sha256": digest}} for uri, digest in sorted(materials.items())),
                ],
            },
            "runDetails": {"builder": {"id": builder or f"{page}#on-a-maintainers-machine"}},
        },
    }
