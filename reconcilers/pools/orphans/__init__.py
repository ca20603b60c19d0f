"""The controller that reclaims instances whose Nextcloud was deleted without having released them."""

from __future__ import annotations
