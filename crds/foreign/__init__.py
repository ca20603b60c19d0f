"""Typed models of kinds that are not ours, generated from OpenAPI documents and CustomResourceDefinitions.

    documents.py   text -> the kinds that a document describes
    selection.py   `spec.template.spec.containers.image` -> a tree of selected fields
    collecting.py  kinds and selections -> the classes to write, with their fields
    typing.py      the schema of a field -> its annotation and default
    naming.py      names of the API -> names of Python
    rendering.py   classes -> the text of a module
    drift.py       two texts -> the differences that matter to a program

Guarantees: pure. Equal documents and selections give equal text. The generated classes are `PartialModel`s: fields that were not selected
survive a round trip. `konverge models` is the only user.
"""
