"""Readiness, history and the event-loop monitor."""
