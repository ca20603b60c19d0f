"""Records in a DNS service, written over a shared HTTP session (docs/how-to/http-session.md)."""

import aiohttp

import konverge as kv


class RecordSpec(kv.Model):
    address: str


@kv.resource("howto.example.com/v1", conditions=("Ready",))
class Record(kv.CustomResource[RecordSpec, kv.Status]):
    """A DNS record."""


def connect() -> aiohttp.ClientSession:
    return aiohttp.ClientSession("https://dns.example.com", timeout=aiohttp.ClientTimeout(total=20))


class RecordReconciler:
    def __init__(self, session: kv.HeldValue[aiohttp.ClientSession]) -> None:
        self._session = session

    async def reconcile(self, record: Record, ctx: kv.Context[Record]) -> kv.Outcome:
        body = {"address": record.spec.address}
        try:
            async with self._session.value.put(f"/records/{record.name}", json=body) as response:
                response.raise_for_status()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise kv.RetryAfter(30, "the DNS service failed") from error
        ctx.status.set_condition("Ready", True, "Written")
        return kv.RequeueAfter(3600)


def build(manager: kv.Manager) -> None:
    reconciler = RecordReconciler(manager.holds(connect, name="the DNS session"))
    manager.add(kv.Controller.of(Record).calls("the DNS service").with_(concurrency=10).reconciled_by(reconciler))
