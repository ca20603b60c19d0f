"""Drains: a Node is emptied before the server deletes its instance, which is acknowledged to it.

decide.py    pods and times; pure
nodes.py     the Node of an instance, read live
evictions.py the calls of one look at a Node: cordon, list, evict
drain.py     one drain, from its event to its acknowledgement
removal.py   the Nodes whose instances are gone
keeper.py    all drains of this turn of leading, each a task
"""
