"""Drains: a Node is emptied before the server deletes its instance, and the drain is acknowledged to the server.

decide    the Node to empty, its pods, and Nodes without instance (pure)
timeout   the end of a drain whose pods do not leave in time (pure)
observe   the Node of an instance and its pods, read live
act       cordon and evict
drain     one drain, from its event to its acknowledgement
running   all drains of this term of leadership, each a task
removal   deletes the Nodes of deleted instances

No reconciler and no plan: a drain is background work of the leader, for the events of the servers.
"""

from __future__ import annotations
