"""The controllers of Nextclouds: one takes an instance for a Nextcloud, and one reclaims instances whose Nextcloud is gone."""

from __future__ import annotations
