"""One request to a conversion webhook: from the bytes of the request to the bytes of the response.

    decode the review -> convert each object -> encode the response

Guarantees
- A failure converts nothing and names the object, its version and the remedy. The API server shows the text to its client.
- The exception of a conversion function is logged with its trace and counted (`controller_runtime_webhook_panics_total`). The response
  names only its type, since the message of an exception may hold a secret. The message of NotConvertible and of InvalidObject is shown.
- An object that is being deleted and cannot be converted passes with a new apiVersion only: its finalizers can be removed, and its
  namespace can end.

Caveats: one object that cannot be converted fails every list of its kind in the other versions. A read in the stored version needs no
conversion.
"""

from __future__ import annotations

from typing import Any

from konverge.crds import Conversion
from konverge.crds.decoding import name_of
from konverge.errors import InvalidObject, NotConvertible, stack_of
from konverge.metrics import Metrics
from konverge.runtime.admission.conversion_review import (
    ConversionRequest,
    decode_conversion,
    encode_converted,
    encode_refusal,
)
from konverge.runtime.admission.responding import AdmissionResponse, Responder
from konverge.runtime.admission.review import too_deep
from konverge.words import LogKey

__all__ = ["ConversionHandler"]


class ConversionHandler(Responder):
    """Responds for the conversion of one kind."""

    def __init__(self, conversion: Conversion[Any], metrics: Metrics) -> None:
        super().__init__(conversion.path, metrics)
        self._conversion = conversion

    async def _respond(self, body: bytes, seconds: float | None) -> AdmissionResponse:  # noqa: ARG002 - it waits for nothing
        return self._converted(decode_conversion(body))

    def _converted(self, request: ConversionRequest) -> AdmissionResponse:
        objects = []
        for given in request.objects:
            try:
                objects.append(self._conversion.converted(given, request.desired))
            except RecursionError:
                raise too_deep() from None
            except Exception as error:  # noqa: BLE001 - containment: an exception of a function becomes a response
                if _metadata(given).get("deletionTimestamp"):
                    self._log.warning(
                        "an object that is being deleted cannot be converted",
                        **{LogKey.KEY: name_of("object", given), LogKey.ERROR: type(error).__name__},
                    )
                    objects.append({**given, "apiVersion": request.desired})
                else:
                    return self._failed(request, given, error)
        return AdmissionResponse(200, encode_converted(request.uid, objects))

    def _failed(self, request: ConversionRequest, given: dict[str, Any], error: Exception) -> AdmissionResponse:
        kind, version = str(given.get("kind") or "object"), str(given.get("apiVersion") or "")
        name = name_of(kind, given)
        match error:
            case InvalidObject():
                why = f"{error.field}: {error.problem}"
            case NotConvertible():
                why = str(error)
            case _:
                why = f"the conversion raised {type(error).__name__}; see the log of the operator"
                self._metrics.webhook_panics.inc()
        self._log.error("a conversion failed", **{LogKey.KEY: name, LogKey.ERROR: why, LogKey.STACK: stack_of(error)})
        text = f"{name} of {version} cannot be converted to {request.desired}: {why}. {self._remedy(given, version)}"
        return AdmissionResponse(200, encode_refusal(request.uid, text), error=error)

    def _remedy(self, given: dict[str, Any], version: str) -> str:
        metadata = _metadata(given)
        group, _, number = version.rpartition("/")
        plural = self._conversion.crd_name.partition(".")[0]
        place = f" -n {metadata['namespace']}" if metadata.get("namespace") else ""
        return (
            f"Correct the field. If the object is stored in {number or 'that version'}, this needs no conversion: "
            f"kubectl edit {plural}.{number}.{group} {metadata.get('name', '')}{place}"
        )


def _metadata(given: dict[str, Any]) -> dict[str, Any]:
    metadata = given.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
