"""The files that `konverge init` and `konverge add` write.

    names.py       the names of a project and of a kind, checked before a file is written
    files.py       the templates, the files that each feature consists of, and writing without replacing a file
    registry.py    a controller, webhook or conversion is added to `build`, if its form allows that
    project.py     the project in a folder, as `konverge add` finds it

The files in templates/ have fields in double braces. Tests render them with several names and check style, types and behaviour.
"""

from __future__ import annotations
