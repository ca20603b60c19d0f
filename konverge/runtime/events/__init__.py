"""Kubernetes Events: aggregation (pure) and the recorder."""
