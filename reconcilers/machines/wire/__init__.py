"""The messages and services of an Nstance server, generated from the .proto files beside (`tools/protos.py`).

Importing it needs the extra `konverge[machines]`.
"""

from __future__ import annotations
