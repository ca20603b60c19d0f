"""A controller as one sentence, its predicates, and the RBAC rules that follow from it."""
