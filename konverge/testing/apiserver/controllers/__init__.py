"""What kube-controller-manager and the CRD controllers do, as far as the API cannot be lived in without: garbage, namespaces, definitions."""
