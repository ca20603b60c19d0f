"""Drains: a Node is emptied before the server deletes its instance, which is acknowledged to it.

decide.py    pods and times; pure
nodes.py     the Node of an instance, read live
evictions.py the calls of one check of a Node: cordon, list, evict
drain.py     one drain, from its event to its acknowledgement
removal.py   the Nodes whose instances were deleted
keeper.py    all drains of this term of leadership, each a task
"""
