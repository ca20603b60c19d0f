"""The controllers of Nextclouds: one controller takes an instance for a Nextcloud, and one reclaims instances whose Nextcloud was
deleted.
"""

from __future__ import annotations
