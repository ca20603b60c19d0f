"""Code that several families need: it knows no family, and families import it.

delays.py      how long until a reconcile that no event causes, by purpose
helm_release/  a HelmRelease of Flux and its sources -> conditions
endpoints.py   URLs that tenants write: allowed schemes, hosts, ports and addresses
durations.py   durations of settings and parameters, in days too
words.py       words of the vworkspace API
resolver.py    host names -> public addresses, for connections to such URLs
"""
