"""Code that several families need: it knows no family, and families import it.

helm_release/  a HelmRelease of Flux and its sources -> conditions
endpoints.py   URLs that tenants write: allowed schemes, hosts, ports and addresses
resolver.py    host names -> public addresses, for connections to such URLs
"""
