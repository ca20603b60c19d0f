"""The controllers that every client of the API depends on: garbage, namespaces, definitions, quotas, protection of storage."""
