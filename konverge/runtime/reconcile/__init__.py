"""One reconcile, from a key to an outcome: context, status, finalizers, plan."""
