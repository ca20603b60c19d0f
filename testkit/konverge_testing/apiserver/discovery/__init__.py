"""Discovery: groups, versions and resources, OpenAPI documents, version and health. See `Discovery`."""

from konverge_testing.apiserver.discovery.responses import Discovery

__all__ = ["Discovery"]
