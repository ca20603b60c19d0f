"""A process that replays objects over loopback HTTP as an API server would send them: pages, streaming lists, watches.

Run as a program: it prints its port, serves until its standard input closes, and computes nothing while it serves (every byte was
prepared before). On `POST /go` the open watches send one change of every object.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

PAGE = 500
BLOCK = 256
DISCOVERY = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [{"name": "configmaps", "namespaced": True, "kind": "ConfigMap", "verbs": ["get", "list", "watch"]}],
}


def make_object(number: int, size: int, version: int) -> bytes:
    """One ConfigMap of about `size` bytes, a quarter of them managedFields, as such objects have."""
    keys = [f"key-{index:02d}" for index in range(16)]
    fields = {
        "f:data": {".": {}, **{f"f:{key}": {} for key in keys}},
        "f:metadata": {
            "f:annotations": {".": {}, "f:example.com/checksum": {}},
            "f:labels": {".": {}, "f:app.kubernetes.io/instance": {}, "f:app.kubernetes.io/name": {}, "f:tier": {}},
            "f:ownerReferences": {".": {}, f'k:{{"uid":"10000000-0000-4000-8000-{number:012d}"}}': {}},
        },
    }
    entry = {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1"}
    manifest = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "name": f"config-{number:06d}",
            "namespace": f"team-{number % 100:03d}",
            "uid": f"20000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": f"shop-{number}", "tier": "web"},
            "annotations": {"example.com/checksum": f"{number * 7919:064x}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"shop-{number}",
                    "uid": f"10000000-0000-4000-8000-{number:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [{**entry, "time": "2030-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}],
        },
        "data": {},
    }
    missing = size - len(json.dumps(manifest, separators=(",", ":"))) - sum(len(key) + 6 for key in keys)
    manifest["data"] = {key: "x" * max(1, missing // len(keys)) for key in keys}
    return json.dumps(manifest, separators=(",", ":")).encode()


def event(kind: bytes, body: bytes) -> bytes:
    """One line of a watch, as one HTTP chunk: the server flushes each event."""
    line = b'{"type":"' + kind + b'","object":' + body + b"}\n"
    return b"%x\r\n%s\r\n" % (len(line), line)


def bookmark(version: int) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"}
    metadata = {"resourceVersion": str(version), "creationTimestamp": None, "annotations": annotations}
    body = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}, separators=(",", ":"))
    return event(b"BOOKMARK", body.encode())


def blocks(parts: list[bytes]) -> list[bytes]:
    return [b"".join(parts[start : start + BLOCK]) for start in range(0, len(parts), BLOCK)]


class Replay:
    """Everything that is sent, prepared."""

    def __init__(self, count: int, size: int) -> None:
        objects = [make_object(number, size, number + 1) for number in range(count)]
        changed = [make_object(number, size, count + number + 1) for number in range(count)]
        self.version = count
        self.bytes = sum(map(len, objects))
        self.initial = blocks([event(b"ADDED", body) for body in objects])
        self.end = bookmark(count)
        self.changes = blocks([event(b"MODIFIED", body) for body in changed])
        starts = range(0, count, PAGE)
        self.pages = [self._page(objects[start : start + PAGE], start + PAGE, count) for start in starts]
        self.go = threading.Event()

    def _page(self, items: list[bytes], following: int, count: int) -> bytes:
        meta = {"resourceVersion": str(count)} | ({"continue": str(following)} if following < count else {})
        # Items of a typed list do not repeat their kind.
        bare = [item.replace(b'"kind":"ConfigMap","apiVersion":"v1",', b"", 1) for item in items]
        head = f'{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{json.dumps(meta)},"items":['
        return head.encode() + b",".join(bare) + b"]}"

    def watch(self, *, initial: bool, closing: bool) -> Iterator[bytes]:
        if initial:
            yield from self.initial
        if closing:
            yield self.end
        self.go.wait()
        yield from self.changes
        threading.Event().wait()


class Handler(socketserver.StreamRequestHandler):
    replay: Replay

    def handle(self) -> None:
        try:
            while line := self.rfile.readline():
                self._headers()
                method, target, _ = line.decode().split()
                self._answer(method, target)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _headers(self) -> None:
        length = 0
        while (header := self.rfile.readline().strip()) != b"":
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if length:
            self.rfile.read(length)

    def _answer(self, method: str, target: str) -> None:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        replay = self.replay
        if method == "POST":
            replay.go.set()
            self._whole(b"{}")
        elif parts.path == "/bytes":
            replay.go.clear()
            self._whole(str(replay.bytes).encode())
        elif parts.path == "/api/v1":
            self._whole(json.dumps(DISCOVERY).encode())
        elif query.get("watch", "").lower() in {"1", "true"}:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            streaming = "sendInitialEvents" in query
            for block in replay.watch(initial=streaming or query.get("resourceVersion") == "0", closing=streaming):
                self.wfile.write(block)
        else:
            self._whole(replay.pages[int(query.get("continue", "0")) // PAGE])

    def _whole(self, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def main() -> None:
    Handler.replay = Replay(int(sys.argv[1]), int(sys.argv[2]))
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
