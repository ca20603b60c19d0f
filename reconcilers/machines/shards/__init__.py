"""The servers of Nstance: their addresses, one connection to each shard, and its calls and streams.

addresses     the address of a server, and the rule for names (pure)
document      the document of shards, and what a new document changes (pure)
messages      the contents of messages that the family needs for decisions (pure)
failures      the failures of calls, by the possible reaction (pure)
client        the calls of one shard; the only module that knows grpclib, together with `dialing`
dialing       channels over TLS 1.3
session       one shard: connected, listed, followed; or waiting to connect again
connections   a session for each shard of the document
"""

from __future__ import annotations
