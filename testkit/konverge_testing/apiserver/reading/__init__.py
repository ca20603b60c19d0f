"""Reading: GET, LIST and WATCH as kube-apiserver 1.36 serves them from its watch cache. Pure decisions, and one thin shell (`Watch`)."""

from konverge_testing.apiserver.reading.changes import Bookmark, bookmark_of
from konverge_testing.apiserver.reading.decoded import as_is, in_form, stored
from konverge_testing.apiserver.reading.lists import (
    ExpiredToken,
    Page,
    list_body,
    list_metadata,
    list_page,
    raw_of,
    read_one,
    typeless,
)
from konverge_testing.apiserver.reading.options import ReadOptions, read_options, wants_watch
from konverge_testing.apiserver.reading.selection import Selection
from konverge_testing.apiserver.reading.watch import BUFFER, StreamCut, Tell, Watch

__all__ = [
    "BUFFER",
    "Bookmark",
    "ExpiredToken",
    "ReadOptions",
    "Page",
    "Selection",
    "StreamCut",
    "Tell",
    "Watch",
    "as_is",
    "bookmark_of",
    "in_form",
    "list_body",
    "list_metadata",
    "list_page",
    "raw_of",
    "read_one",
    "read_options",
    "stored",
    "typeless",
    "wants_watch",
]
