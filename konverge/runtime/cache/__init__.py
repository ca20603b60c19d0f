"""Typed reads of the informers' stores."""
