"""Parts of a release: the verbs `make release` and `make release-files` (docs/maintaining.md).

Decisions are pure functions: versions, copies of the version in the tree, reasons to refuse, archives, the provenance. `files` and
`__main__` are the shells around git and the build.
"""
