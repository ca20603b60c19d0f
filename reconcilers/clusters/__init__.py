"""Clusters and pull mode: an agent fetches jobs from a control plane, carries them out, and reports results and status.

    words.py       condition types, reasons, annotations
    settings.py    every number and switch
    protocol.py    the messages, and the meaning of HTTP statuses (openapi.py: their OpenAPI document)
    jobs.py        a job as delivered -> a task, or a refusal
    journal.py     the unfinished jobs, and the finished jobs
    events.py      changes of conditions -> events; the bounded buffer
    execute.py     a task -> writes to the API server -> a result
    metrics.py     the instruments, under the original's names
    act.py         requests to the control plane over HTTP (transport.py: their interface)
    secrets.py     the Secrets of credential and journal
    agent.py       the life of one agent; service.py: the agents of a manager, as background work
      plane_session.py  its requests and its credential
      job_worker.py     jobs: poll, journal, effect, result (attempts.py: pauses; room.py: the capacity of the journal; give_up.py: the
                        jobs that a full journal gives up; results.py: repeated and expired jobs; sweep.py: the pages of a poll)
      event_sender.py   reports of status
      agent_state.py    its configuration, and the state that it shows
    decide.py      observed state -> conditions and phase of a Cluster
    reconciler.py  the async shell
    admission.py   the webhook: refuses an endpoint that is not used

The API: docs/reference/pull-protocol.md. The guide: docs/guide/pull-mode.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.lazy import at_first_use

if TYPE_CHECKING:
    from konverge.reconcilers.clusters.installation import controller, install, rules
    from konverge.reconcilers.clusters.settings import Settings

__all__ = ["Settings", "controller", "install", "rules"]

__getattr__ = at_first_use(__name__, {"installation": ("controller", "install", "rules"), "settings": ("Settings",)})
