"""The daemon and its command line: `konverge`.

    main.py         the group of commands; each is imported on its first use
    run.py, crds.py, rbac.py, webhooks.py, configuration.py, explain.py, quota.py, completion.py    one command each
    init.py, add.py a project for an operator of a user's own; scaffold/ has its files
    settings.py     the settings; config.py reads them from their sources (flag, variable, file, default)
    logs.py         structlog for a process: JSON or console, without secrets
    engine.py       one operator as a process: signals, logs, metrics, health; `konverge run` and `kv.run` are the same
    garbage.py      garbage collection while a process starts
    programs.py     the controllers to run: the installed families, or a user's `module:build`
    families.py     the installed families: discovery, settings, installation

Uses only the library's public API. Only `konverge.program` imports this package: it has the only signal handlers, argument parsing,
process exits and logging set-up of the project.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.daemon; the folder at cmd/konverged is the same room under another name")
