"""The engines of Operations, one file each: pure translations between an Operation and the object of an engine.

A further engine is a file that satisfies `engine.Engine`, and a row in `registry.py`.
"""
