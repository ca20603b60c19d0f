"""The status of a HelmRelease and its sources, translated into conditions of the object that renders them.

    words.py       reasons, annotations on a HelmRelease, words of Flux; kinds.py: its kinds
    freshness.py   status of a HelmRelease or a source -> the part that is about the present spec; versions.py compares versions
    sources.py     failures of sources
    values.py      values in a Secret or ConfigMap
    facts.py       the input of the translation, and its result
    translate.py   facts -> conditions; progress.py: the deadline of a rollout
    rollout.py     the record of a finished rollout
    messages.py    texts; redaction.py removes values and credentials from Flux's texts

Behaviour of Flux: docs/reference/flux.md. The rows: docs/reference/apps.md#translation.
"""
