"""Whether a cache is as new as this moment: checked once when a replica begins to lead, because a standby's cache may be behind the last
writes of the leader before it.

    list one object, metadata only      -> the server's present version
    watch from the cache's version      -> the events that the cache lacks, and a bookmark at or after that version
    the cache shows the last of these   -> it is at least as new as the begin of the term

Guarantees: versions are compared within one kind, since an API server may keep a kind in a store of its own. Nothing is listed again. A
cache that is not current in time is used anyway, which a metric counts; so is a cache whose versions cannot be compared.

Caveats: for a kind that does not change, this takes about a second: kube-apiserver sends the bookmark two seconds before the end of a
watch, and the shortest watch with a bookmark lasts three seconds.

Source of the bookmark: https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go.
The first read of the list brings the server's own cache up to date:
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/2340-Consistent-reads-from-cache
"""

from __future__ import annotations

import asyncio

from konverge.client import Client, ListQuery, WatchQuery
from konverge.client.responses import decode_metadata
from konverge.errors import KonvergeError, Unreachable
from konverge.informers import Informer
from konverge.objects import reached
from konverge.tasks import wait_first

__all__ = ["LIMIT", "catch_up"]

LIMIT = 10.0
"""Seconds after which a cache is used although it may be behind; the barrier of own writes has the same limit."""
_PROBE_SECONDS = 3
_RETRY = 0.5


async def catch_up(client: Client, informer: Informer) -> bool:
    """Wait until the cache shows everything that was stored before this call; returns False if the time limit was reached."""
    try:
        async with asyncio.timeout(LIMIT):
            while True:
                try:
                    await _compare(client, informer)
                    return True
                except KonvergeError:
                    await asyncio.sleep(_RETRY)
    except TimeoutError:
        return False


async def _compare(client: Client, informer: Informer) -> None:
    selection, info = informer.selection, informer.info
    if info is None or not informer.synced:
        return  # a list after the begin of the term is new enough
    where = {"namespace": selection.namespace, "labels": selection.labels, "fields": selection.fields}
    page = await client.list_page(info, ListQuery(**where, limit=1, metadata_only=True))  # type: ignore[arg-type]  # a dict has one type of value
    wanted = page.resource_version
    if reached(informer.store.version, wanted) is not False:
        return
    query = WatchQuery(
        **where,  # type: ignore[arg-type]  # as above
        resource_version=informer.store.version,
        timeout_seconds=_PROBE_SECONDS,
        idle_seconds=LIMIT,
        metadata_only=True,
    )
    await wait_first(informer.store.reaches(wanted), _missing_shown(client, informer, query, wanted))


async def _missing_shown(client: Client, informer: Informer, query: WatchQuery, wanted: str) -> None:
    """Find the last event that the cache lacks, and wait until it shows it. Raises Unreachable if the watch ends before."""
    assert informer.info is not None
    newest = query.resource_version
    async with client.watch(informer.info, query) as stream:
        async for events in stream:
            for event in events:
                if event.type == "ERROR":
                    raise Unreachable(f"watch of {informer.selection}: the history from version {newest} on is gone")
                metadata = decode_metadata(bytes(event.object))
                version = metadata.resource_version
                if event.type != "BOOKMARK":
                    newest = version
                if reached(version, wanted) is not False:
                    await informer.store.reaches(newest)
                    return
    raise Unreachable(f"watch of {informer.selection}: no bookmark came")
