"""The daemon and its command line: `konverge`.

    main.py         the group of commands; each is loaded when it is asked for
    run.py, crds.py, rbac.py, configuration.py, explain.py, demo.py    one command each
    settings.py     what can be set; config.py where a value comes from (flag, variable, file, default)
    logs.py         structlog for a process: JSON or console, without secrets
    engine.py       one operator as a process: signals, logs, metrics, health; `konverge run` and `kv.run` are the same
    programs.py     what is run: our families, or a user's `module:build`

Built on the library's public face. Nothing imports this room but `konverge.program`: here are the only signal handlers, argument
parsing, process exits and logging set-up of the project.
"""

from __future__ import annotations

if not __name__.startswith("konverge."):
    raise ImportError("import konverge.daemon; the folder at cmd/konverged is the same room under another name")
