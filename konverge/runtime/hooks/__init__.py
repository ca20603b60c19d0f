"""The hooks of the runtime, which a plug-in such as election or sharding implements. Protocols only.

leadership.py    when this process may write, and the terms that controllers wait for
object_gate.py   which objects a controller watches and reconciles in this process
"""
