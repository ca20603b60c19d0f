"""Helm charts of operators: our own daemon's, and those that `konverge chart module:build` writes from the same pieces.

konverge/    the chart of our own daemon; its templates and values are the pieces of every other chart
parts.py     what a chart holds of an operator, as data, and the generated files of it
values.py    values.yaml with its comments: the table of values, a value left out or set
users.py     the rules of the ClusterRoles for users
schema.py    the JSON schema of values
other_names.py   names that values have in other charts, and their names here
chart.py     all files of a chart
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.charts; the folder at the root is the same room under another name")

from konverge.charts.chart import FOLDER, chart_files, daemon_files, generated_files, own_chart
from konverge.charts.parts import ChartPlaces, OperatorChart, Part, Rules, difference
from konverge.charts.users import user_rules

__all__ = [
    "FOLDER",
    "ChartPlaces",
    "OperatorChart",
    "Part",
    "Rules",
    "chart_files",
    "daemon_files",
    "difference",
    "generated_files",
    "own_chart",
    "user_rules",
]
