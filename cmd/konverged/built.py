"""The commit and the build of this package: empty in a source tree; `make release-files` writes them into what it packs."""

from typing import Final

__all__ = ["BUILD", "COMMIT"]

COMMIT: Final[str] = ""
BUILD: Final[str] = ""
