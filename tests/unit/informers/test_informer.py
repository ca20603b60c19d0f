"""An informer against a scripted API, on virtual time."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from konverge.errors import (
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unreachable,
    UsageError,
)
from konverge.informers import RestartCause, Selection

DENIED = 'things.example.com is forbidden: User "u" cannot {verb} resource "things" in API group "example.com" at the cluster scope'


def denied(verb: str) -> Forbidden:
    return Forbidden(DENIED.format(verb=verb), status=403, reason="Forbidden")


async def test_a_streaming_list_becomes_the_watch(api: Any, make_set: Any, selection: Selection, heard: Any) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        registration = informer.add_handler("h", heard)
        stream = await api.next_watch()
        assert stream.query.send_initial_events
        assert stream.query.match == "NotOlderThan"
        assert stream.query.resource_version == ""
        assert 300 <= stream.query.timeout_seconds <= 600
        assert stream.query.idle_seconds == 70

        stream.accept().send(api.added("a", 3), api.added("b", 4))
        await api.settle()
        assert not informer.synced, "nothing is seen of a state that is not whole"
        assert informer.store.get("web", "a") is None
        assert not registration.has_synced

        stream.send(api.bookmark(9, ends=True))
        await registration.synced()
        assert heard.drain() == ["+a!", "+b!"]
        assert informer.store.version == "9"

        stream.send(api.modified("a", 10), api.added("c", 11), api.deleted("b", 12))
        await api.settle()
        assert heard.drain() == ["~a", "+c", "-b"]
        assert (informer.store.version, len(informer.store)) == ("12", 2)
        assert informer.problem is None
    assert stream.closed


async def test_a_plain_list_is_paged_and_watched_from_its_first_page(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set(watch_list=False, page_size=2) as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", heard)
        page = await api.next_list()
        assert (page.query.resource_version, page.query.limit, page.query.continue_) == ("", 2, "")
        page.answer(api.body("a", 3), api.body("b", 4), version="9", continue_="more")
        page = await api.next_list()
        assert (page.query.limit, page.query.continue_) == (2, "more")
        page.answer(
            api.body("c", 5), version="12"
        )  # unlike any kube-apiserver; a watch from this version could miss the events between
        stream = await api.next_watch()
        assert (stream.query.resource_version, stream.query.send_initial_events, stream.query.match) == ("9", False, "")
        assert informer.synced
        assert informer.problem is None
        await api.settle()
        assert heard.drain() == ["+a!", "+b!", "+c!"]


async def test_a_page_that_expired_is_followed_by_one_list_without_pages(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set(watch_list=False, page_size=1) as informers:
        informer = informers.acquire(selection)
        (await api.next_list()).answer(api.body("a", 3), version="9", continue_="more")
        (await api.next_list()).refuse(Expired("the continue token is too old", status=410))
        page = await api.next_list()
        assert (page.query.resource_version, page.query.limit, page.query.continue_) == ("", 0, "")
        page.answer(api.body("b", 12), version="12")
        assert (await api.next_watch()).query.resource_version == "12"
        assert [cached.metadata.name for cached in informer.store.list()] == ["b"], "the expired page is forgotten"


@pytest.mark.parametrize("how", ["status", "event"])
async def test_a_410_on_the_watch_relists_and_delivers_the_missed_deletions(
    how: str, api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1), api.body("b", 2), api.body("c", 3), version="5")
        stream.send(api.modified("a", 6))
        await api.settle()
        heard.drain()
        if how == "event":
            stream.send(api.error(410, "Expired", "too old resource version: 6 (9)"))
        else:
            stream.end()
            (await api.next_watch()).refuse(Expired("too old resource version: 6 (9)", status=410))
        stream = await api.next_watch()
        assert stream.query.send_initial_events
        assert stream.query.resource_version == "", "the old version is of no use"
        assert len(informer.store) == 3, "until the new state is whole the old one stands"
        stream.accept().send(api.added("a", 6), api.added("c", 8), api.added("d", 9), api.bookmark(10, ends=True))
        await api.settle()
        assert heard.drain() == ["-b", "~c", "+d"], "deletions first, nothing of what did not change"
        assert informer.statistics().restarts[RestartCause.EXPIRED] == 1
        assert informer.problem is None


async def test_events_after_an_error_event_in_the_same_read_are_ignored(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set(slice_objects=2) as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1), version="5")
        heard.drain()
        gone = api.error(410, "Expired", "too old")
        stream.send(api.modified("a", 6), gone, api.modified("a", 7), api.modified("a", 8), api.bookmark(9))
        again = await api.next_watch()
        assert heard.drain() == ["~a"]
        assert informer.store.version == "6"
        assert again.query.resource_version == ""


async def test_streams_that_break_at_once_are_a_problem_until_a_stream_lasts(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(api.body("a", 1))
        await asyncio.sleep(60)
        stream.send(api.error(500, "InternalError", "etcd is away"))
        for _ in range(3):
            stream = (await api.next_watch()).accept()
            await api.settle()
            assert informer.problem is not None, "that it opens says little"
            stream.send(api.error(500, "InternalError", "etcd is away"))
        stream = (await api.next_watch()).accept()
        await asyncio.sleep(1.5)
        assert informer.problem is None, "this one lasts"
        stream.send(api.modified("a", 101))
        await api.settle()
        assert informer.store.version == "101", "and is read on"


async def test_unchanged_objects_keep_their_identity_over_a_relist(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(api.body("a", 1))
        before = informer.store.get("web", "a")
        stream.send(api.bookmark(101), api.error(410, "Expired", "too old"))
        await api.synced_stream(api.body("a", 1), version="110")
        assert informer.store.get("web", "a") is before
        assert informer.store.version == "110"


async def test_object_replaced_between_lists_is_delivered_as_deletion_and_addition(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set() as informers:
        informers.acquire(selection).add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1, uid="first"))
        heard.drain()
        stream.send(api.bookmark(101), api.error(410, "Expired", "too old"))
        await api.synced_stream(api.body("a", 200, uid="second"), version="300")
        assert heard.drain() == ["-a", "+a"]


async def test_a_resource_version_ahead_of_the_server_leads_to_a_relist(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informers.acquire(selection)
        stream = await api.synced_stream(version="100")
        stream.send(api.modified("a", 101))
        stream.end()
        (await api.next_watch()).refuse(
            ServerFailure("Timeout: Too large resource version: 101, current: 7", status=504)
        )
        stream = await api.next_watch()
        assert stream.query.send_initial_events
        assert stream.query.resource_version == ""


async def test_a_watch_that_ends_without_error_is_restarted_from_the_same_version(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(version="100")
        stream.send(api.modified("a", 101), api.bookmark(150))
        await asyncio.sleep(60)
        stream.end()
        again = await api.next_watch(within=0.01)
        assert again.query.resource_version == "150"
        assert not again.query.send_initial_events
        assert stream.closed
        assert informer.statistics().lists == 0


@pytest.mark.parametrize("by", ["an event", "a bookmark"])
async def test_a_version_that_goes_back_within_a_watch_loses_no_change(
    api: Any, make_set: Any, selection: Selection, heard: Any, by: str
) -> None:
    """This server breaks the promised order. The next watch begins at the older version, and the server sends the rest again."""
    async with make_set() as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 90), api.body("b", 91), version="100")
        stream.send(api.modified("a", 102), api.deleted("b", 103))
        await api.settle()
        stream.send(api.modified("a", 101) if by == "an event" else api.bookmark(101))
        await asyncio.sleep(60)
        assert informer.store.version == "101"
        assert not informer.store.shows("web", "b", "103"), "the barrier waits, and does not act on the older state"
        stream.end()
        again = await api.next_watch(within=0.01)
        assert again.query.resource_version == "101"
        again.accept().send(api.modified("a", 102), api.deleted("b", 103), api.bookmark(104))
        await api.settle()
        assert [one.version for one in informer.store.list()] == ["102"]
        assert informer.store.version == "104"
        expected = ["+a!", "+b!", "~a", "-b", *["~a"] * (2 if by == "an event" else 0)]
        assert heard.drain() == expected


async def test_versions_that_are_not_numbers_follow_the_stream_order(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(
            api.body("a", "q9"), version="q10"
        )  # as an aggregated API server may send them
        stream.send(api.modified("a", "c3"), api.bookmark("b2"))
        await asyncio.sleep(60)
        assert informer.store.get("web", "a").version == "c3"
        stream.end()
        assert (await api.next_watch(within=0.01)).query.resource_version == "b2"


async def test_server_that_ends_every_watch_at_once_causes_informer_backoff(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informers.acquire(selection)
        stream = await api.synced_stream()
        await asyncio.sleep(10)
        stream.end()
        asked = 0
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - began < 600:
            (await api.next_watch()).accept().end()
            asked += 1
        assert asked < 30


async def test_a_watch_without_a_byte_is_restarted_within_75_seconds(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream()
        began = asyncio.get_running_loop().time()
        again = await api.next_watch()
        assert 69 < asyncio.get_running_loop().time() - began < 75
        assert again.query.resource_version == "100"
        assert stream.closed
        again.accept()
        await api.settle()
        assert informer.statistics().restarts == {RestartCause.IDLE: 1}
        assert informer.problem is None


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (Unreachable("connection refused"), RestartCause.REFUSED),
        (Unreachable("reset", maybe_done=True), RestartCause.UNREACHABLE),
        (TooManyRequests("slow down", status=429), RestartCause.TOO_MANY_REQUESTS),
        (ServerFailure("etcd", status=500), RestartCause.SERVER_FAILURE),
        (denied("watch"), RestartCause.FORBIDDEN),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_failing_watch_backs_off_and_restarts_from_the_same_version(
    error: Exception, cause: str, api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(api.body("a", 1))
        stream.send(api.bookmark(120))
        stream.end()
        began = asyncio.get_running_loop().time()
        (await api.next_watch()).refuse(error)
        again = await api.next_watch()
        assert 0.8 <= asyncio.get_running_loop().time() - began <= 1.7
        assert again.query.resource_version == "120"
        assert informer.problem is not None
        assert informer.problem.cause == cause
        assert informer.synced, "what was known is still there"
        again.accept()
        await api.settle()
        assert informer.problem is None


async def test_missing_right_is_reported_as_its_rbac_rule_until_granted(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        other = informers.acquire(Selection(selection.kind, namespace="other"))
        requests = [await api.next_watch(), await api.next_watch()]
        for request in requests:
            if request.query.namespace == "other":
                request.accept().send(api.bookmark(5, ends=True))
            else:
                request.refuse(denied("watch"))
        (await api.next_list()).refuse(denied("list"))
        await api.settle()
        assert informer.problem is not None
        assert informer.problem.rule == {
            "apiGroups": ["example.com"],
            "resources": ["things"],
            "verbs": ["list", "watch"],
        }
        since = informer.problem.since
        assert not informer.synced
        assert other.synced, "one missing right degrades one informer"
        assert other.problem is None

        (await api.next_watch()).refuse(denied("watch"))
        (await api.next_list()).refuse(denied("list"))
        await api.settle()
        assert informer.problem.since == since
        await api.synced_stream(api.body("a", 1))
        assert informer.synced
        assert informer.problem is None


async def test_a_403_that_no_rbac_rule_can_mend_names_no_rule(api: Any, make_set: Any, selection: Selection) -> None:
    async with make_set(watch_list=False) as informers:
        informer = informers.acquire(selection)
        (await api.next_list()).refuse(Forbidden("the webhook says no", status=403))
        await api.settle()
        assert informer.problem is not None
        assert informer.problem.rule is None


async def test_informer_with_list_but_without_watch_rights_has_state_and_a_problem(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        (await api.next_watch()).refuse(denied("watch"))
        (await api.next_list()).answer(api.body("a", 3), version="9")
        (await api.next_watch()).refuse(denied("watch"))
        await api.settle()
        assert informer.synced
        assert informer.problem is not None
        assert informer.problem.cause == RestartCause.FORBIDDEN
        again = await api.next_watch()
        assert again.query.resource_version == "9", "no list is repeated meanwhile"
        again.accept()
        await api.settle()
        assert informer.problem is None


async def test_streaming_list_without_its_bookmark_becomes_a_list_and_is_remembered(
    api: Any, make_set: Any, selection: Selection, metrics: Any
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = (await api.next_watch()).accept()
        began = asyncio.get_running_loop().time()
        stream.send(api.added("a", 1))
        await asyncio.sleep(20)
        stream.send(api.added("b", 2))
        await asyncio.sleep(20)
        stream.send(api.modified("a", 3), api.bookmark(4))
        page = await api.next_list()
        assert asyncio.get_running_loop().time() - began == pytest.approx(50, abs=0.1), (
            "30 s since the last initial object"
        )
        assert stream.closed
        page.answer(api.body("a", 3), version="9")
        (await api.next_watch()).accept()
        await api.settle()
        assert informer.synced
        assert informer.statistics().fallbacks == {RestartCause.NO_PROGRESS: 1}

        informers.acquire(Selection(selection.kind, namespace="other"))
        assert (await api.next_list(within=1)).query.namespace == "other", "others do not fall into the same hole"
        labels = {"group": "example.com", "version": "v1", "kind": "Thing", "cause": RestartCause.NO_PROGRESS}
        assert metrics.registry.get_sample_value("konverge_watchlist_fallbacks_total", labels) == 1


async def test_a_streaming_list_that_never_opens_becomes_a_plain_list(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informers.acquire(selection)
        request = await api.next_watch()
        await api.next_list(within=31)
        assert request.closed


async def test_a_streaming_list_is_tried_again_after_an_hour_on_the_denylist(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        informers.acquire(selection)
        (await api.next_watch()).refuse(Invalid("sendInitialEvents is forbidden", status=422))
        (await api.next_list()).answer(version="9")
        stream = (await api.next_watch()).accept()
        stream.send(api.bookmark(10), api.error(410, "Expired", "too old"))
        (await api.next_list()).answer(version="11")
        stream = (await api.next_watch()).accept()
        for version in range(20, 90):
            stream.send(api.bookmark(version))
            await asyncio.sleep(60)
        stream.send(api.error(410, "Expired", "too old"))
        assert (await api.next_watch()).query.send_initial_events


async def test_an_informer_of_an_absent_kind_waits_until_it_is_served(
    api: Any, make_set: Any, selection: Selection, not_served: Exception, heard: Any
) -> None:
    async with make_set() as informers:
        api.info, served = not_served, api.info
        informer = informers.acquire(selection)
        registration = informer.add_handler("h", heard)
        await asyncio.sleep(600)
        assert informer.problem is not None
        assert informer.problem.cause == RestartCause.NOT_SERVED
        assert "install its CRD" in informer.problem.message
        assert not registration.has_synced
        assert 20 <= len(api.discoveries) <= 26, "polled, but not hammered"
        api.info = served
        began = asyncio.get_running_loop().time()
        await api.synced_stream(api.body("a", 1))
        assert asyncio.get_running_loop().time() - began <= 36.1
        await registration.synced()
        assert heard.drain() == ["+a!"]
        assert informer.problem is None


async def test_objects_of_an_unserved_kind_are_deleted_until_served_again(
    api: Any, make_set: Any, selection: Selection, not_served: Exception, heard: Any
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        registration = informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1), api.body("b", 2))
        heard.drain()
        api.info, served = not_served, api.info
        await asyncio.sleep(5)
        stream.end()
        (await api.next_watch()).refuse(NotFound("404 page not found", status=404))
        await api.settle()
        assert heard.drain() == ["-a", "-b"]
        assert api.forgotten
        assert not informer.synced
        assert not registration.has_synced
        assert informer.problem is not None
        assert informer.problem.cause == RestartCause.NOT_SERVED
        assert informer.store.version == ""

        await asyncio.sleep(100)
        api.info = served
        stream = await api.next_watch()
        assert stream.query.resource_version == ""
        stream.accept().send(api.added("b", 900, uid="new"), api.bookmark(901, ends=True))
        await registration.synced()
        assert heard.drain() == ["+b!"]
        assert informer.problem is None


async def test_a_404_repeats_discovery_and_relists_if_the_kind_is_still_served(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1))
        await asyncio.sleep(5)
        stream.end()
        (await api.next_watch()).refuse(NotFound("404", status=404))
        await api.synced_stream(api.body("a", 1), version="120")
        assert heard.drain() == ["+a!"], "no handler noticed"
        assert informer.synced


async def test_a_defect_is_logged_and_the_informer_lists_again(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1), api.body("b", 1))
        stream.cut(ZeroDivisionError("hunter2"))
        await api.settle()
        assert informer.problem is not None
        assert informer.problem.cause == RestartCause.BROKEN
        assert "hunter2" not in informer.problem.message
        await api.synced_stream(api.body("b", 1), version="120")
        assert heard.drain() == ["+a!", "+b!", "-a"]
        assert informer.synced
        assert informer.problem is None


async def test_a_late_handler_receives_the_existing_objects_without_gaps_or_duplicates(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        stream = await api.synced_stream(*(api.body(f"n{number}", 1) for number in range(5)))
        registration = informer.add_handler("late", heard)
        stream.send(api.modified("n3", 101), api.deleted("n4", 102), api.added("n5", 103))
        assert not registration.has_synced
        await registration.synced()
        await api.settle()
        lines = heard.drain()
        assert sum(line.startswith("+") for line in lines) in {5, 6}, "n4 may be gone before it was told"
        assert heard.versions == {"n0": "1", "n1": "1", "n2": "1", "n3": "101", "n5": "103"}


async def test_a_removed_handler_receives_no_more_changes(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    async with make_set() as informers:
        informer = informers.acquire(selection)
        registration = informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1))
        heard.drain()
        registration.remove()
        registration.remove()
        stream.send(api.modified("a", 101))
        await api.settle()
        assert heard.drain() == []
        assert informer.statistics().handlers == ()


async def test_equal_selections_share_one_informer_until_the_last_release(
    api: Any, make_set: Any, selection: Selection
) -> None:
    async with make_set() as informers:
        first = informers.acquire(selection)
        second = informers.acquire(Selection(selection.kind))
        other = informers.acquire(Selection(selection.kind, labels="a=b"))
        assert first is second
        assert other is not first
        requests = {request.query.labels: request for request in [await api.next_watch(), await api.next_watch()]}
        informers.release(first)
        await api.settle()
        assert not requests[""].closed
        informers.release(second)
        await api.settle()
        assert requests[""].closed
        assert informers.informers() == [other]
        with pytest.raises(UsageError, match="released more often"):
            informers.release(first)
        assert informers.acquire(selection) is not first


async def test_informers_are_acquired_inside_the_block_only(make_set: Any, selection: Selection) -> None:
    informers = make_set()
    with pytest.raises(UsageError, match="enter it first"):
        informers.acquire(selection)


async def test_leaving_the_block_of_an_informer_set_ends_every_task_and_stream(
    api: Any, make_set: Any, selection: Selection, heard: Any
) -> None:
    before = asyncio.all_tasks()
    async with make_set() as informers:
        informer = informers.acquire(selection)
        informer.add_handler("h", heard)
        stream = await api.synced_stream(api.body("a", 1))
    assert stream.closed
    assert asyncio.all_tasks() == before
    informers.release(informer)
    assert informer.store.get("web", "a") is not None, "who still holds it may read what it last saw"
    with pytest.raises(UsageError, match="acquire it again"):
        informer.add_handler("late", heard)


async def test_a_cluster_scoped_kind_is_requested_without_a_namespace(
    api: Any, make_set: Any, selection: Selection
) -> None:
    api.info = replace(api.info, namespaced=False)
    async with make_set() as informers:
        informers.acquire(Selection(selection.kind, namespace="web"))
        assert (await api.next_watch()).query.namespace is None


async def test_requests_carry_the_selection_to_the_server(api: Any, make_set: Any, selection: Selection) -> None:
    async with make_set() as informers:
        informers.acquire(
            Selection(selection.kind, namespace="web", labels="a=b", fields="metadata.name=x", metadata_only=True)
        )
        request = await api.next_watch()
        query = request.query
        assert (query.namespace, query.labels, query.fields, query.metadata_only) == (
            "web",
            "a=b",
            "metadata.name=x",
            True,
        )
        request.refuse(Invalid("no", status=422))
        query = (await api.next_list()).query
        assert (query.namespace, query.labels, query.fields, query.metadata_only) == (
            "web",
            "a=b",
            "metadata.name=x",
            True,
        )


def test_a_metadata_only_selection_takes_no_transform(selection: Selection) -> None:
    with pytest.raises(UsageError, match="drop one of the two"):
        Selection(selection.kind, metadata_only=True, transform=lambda data: data)
