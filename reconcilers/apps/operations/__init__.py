"""Operations: one action on an ApplicationInstance, performed by an engine.

`words.py` holds condition types and reasons, `settings.py` every number and switch, `engines/` one file for each engine: the object
that it makes, and the translation of that object's status.
"""
