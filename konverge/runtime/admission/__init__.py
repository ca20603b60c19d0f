"""Admission webhooks: handlers that complete or refuse what is written, before it is stored.

    webhook.py         a webhook as one sentence; request.py, verdicts.py what its handler is asked and may answer
    review.py          AdmissionReview on the wire (pure); patching.py the JSON patch (pure)
    answering.py       one request to one webhook, contained; dispatching.py all of them behind one door
    configurations.py  what the API server must be told, as data (pure); settings.py where it finds us
    certificates.py    self-made certificates (pure); keeping.py the Secret and the CA bundles; tls.py the certificate in use
    running.py         all of it inside a manager; serving.py its server (the shell of which is runtime/posts.py)

Importing this loads neither aiohttp nor cryptography nor jsonpatch: they come with the first manager that serves a webhook.
"""

from __future__ import annotations

from konverge.runtime.admission.request import AdmissionRequest, Name, Operation, User
from konverge.runtime.admission.settings import WebhookSettings
from konverge.runtime.admission.verdicts import Allow, Deny, Verdict
from konverge.runtime.admission.webhook import Webhook

__all__ = ["AdmissionRequest", "Allow", "Deny", "Name", "Operation", "User", "Verdict", "WebhookSettings", "Webhook"]
