"""The controller of Nextclouds: it locks or creates one instance for each Nextcloud, and keeps the tenant's fields on it."""

from __future__ import annotations
