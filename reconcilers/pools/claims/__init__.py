"""The controllers of Nextclouds: one takes an instance for a Nextcloud, and one reclaims instances of deleted Nextclouds."""

from __future__ import annotations
