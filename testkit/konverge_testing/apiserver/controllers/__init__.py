"""Controllers that the API cannot be lived in without: garbage, namespaces, definitions, quotas, protection of storage."""
