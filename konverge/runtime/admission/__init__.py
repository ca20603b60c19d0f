"""Webhooks: handlers that change or deny a write before it is stored, and conversions between the versions of a kind.

    webhook.py         a webhook as one sentence; request.py, verdicts.py the argument and the result of its handler
    review.py          AdmissionReview on the wire (pure); patching.py the JSON patch (pure)
    conversion_review.py  ConversionReview on the wire (pure); konverge.crds.Conversion converts
    responding.py      the HTTP response, counted and timed; handler.py and conversion_handler.py one request to one webhook, contained
    router.py          from a request's path to its webhook
    configurations.py  the webhook configurations as data (pure); settings.py addresses, names and times
    cert_secret.py     the Secret of self-made certificates (runtime/tls); bundles.py the CA bundles (pure)
    registry.py        the webhooks of a manager; server.py runs them; serving.py the HTTP server (runtime/http/posts.py)

Importing this loads neither aiohttp nor cryptography: the first manager that serves a webhook imports them.
"""

from __future__ import annotations

from konverge.runtime.admission.request import AdmissionRequest, Name, Operation, User
from konverge.runtime.admission.settings import WebhookSettings
from konverge.runtime.admission.verdicts import Allow, Deny, Verdict
from konverge.runtime.admission.webhook import Webhook

__all__ = ["AdmissionRequest", "Allow", "Deny", "Name", "Operation", "User", "Verdict", "WebhookSettings", "Webhook"]
