"""The reference of the public names: which page has which names; mkdocstrings inserts their docstrings."""

from __future__ import annotations

from typing import Final, NamedTuple


class Part(NamedTuple):
    """A page of the reference: its title, the sentence below the title, and the public names on it, in order."""

    title: str
    subject: str
    names: str


PAGES: Final = {
    "controllers": Part(
        "Controllers",
        "A controller as a sentence, and what its reconciler gets and returns.",
        "Controller Context Done Outcome RequeueAfter RetryAfter Terminal Child TAKE HOLD FieldsHeld Condition ConditionUpdate is_true "
        "is_false Plan Apply Patch Delete PlannedEvent Report",
    ),
    "watches": Part(
        "Watches and sources",
        "Predicates, mappers, and sources beside watches.",
        "Change Listening Channel every daily all_of any_of annotations_changed generation_changed labels_changed metadata_changed back_reference "
        "by_back_reference",
    ),
    "retries": Part(
        "Retries",
        "Limiters: the delay after a failed reconcile, for each key and for all keys.",
        "Limiter ItemExponential Bucket MaxOf MaxWait Jitter",
    ),
    "manager": Part(
        "The manager",
        "The process of an operator: its settings, its services and its lifetime.",
        "Manager ManagerSettings ElectionSettings ShardingSettings WebhookSettings BackgroundServices HeldValue Metrics Rule run",
    ),
    "kinds": Part(
        "Kinds and models",
        "Custom resources as models, kinds without a model, and several versions of a kind.",
        "CustomResource Status resource Column Model Conversion Kind kind Key Object Metadata MetadataObject Resource",
    ),
    "client": Part(
        "The client and readers",
        "Reads and writes, with and without a manager.",
        "Client ClientConfig Reader Caches",
    ),
    "admission": Part(
        "Admission",
        "Webhooks that change or deny a write.",
        "Webhook AdmissionRequest Allow Deny",
    ),
    "errors": Part(
        "Errors",
        "The errors of the library: the docstring of each names who raises it, and what the runtime does with it.",
        "KonvergeError ApiError NotFound Forbidden Conflict ObjectChanged InvalidObject NotConvertible",
    ),
}


def pages() -> dict[str, str]:
    """Return the pages by their paths on the site."""
    return {
        f"reference/api/{page}.md": "\n\n".join(
            [f"# {title}", subject, *(f"::: konverge.{name}" for name in names.split())]
        )
        + "\n"
        for page, (title, subject, names) in PAGES.items()
    }
