"""The programs that envtest starts in place of etcd and kube-apiserver: `python stand_in.py etcd|kube-apiserver FLAGS`.

Guarantees: `kube-apiserver` is the API server in memory, with the certificates, the port and the rights that envtest's flags name; other
flags are ignored. `etcd` responds to `/health` and stores nothing. Both end at SIGTERM.
"""

import asyncio
import csv
import signal
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

Flags = dict[str, str]


def flags_of(words: Sequence[str]) -> Flags:
    """Return the flags `--name=value` by name; the last of a name counts.

    >>> flags_of(["--secure-port=6443", "--authorization-mode=RBAC"])
    {'secure-port': '6443', 'authorization-mode': 'RBAC'}
    """
    pairs = (word.removeprefix("--").partition("=") for word in words)
    return {name: value for name, _, value in pairs}


async def serve(flags: Flags) -> None:
    """Run the API server in memory until SIGTERM."""
    from konverge_testing import ApiServer
    from konverge_testing.apiserver.certificates import KeyPair
    from konverge_testing.apiserver.requests import User
    from konverge_testing.apiserver.tls import context_of

    tokens = {}
    if given := flags.get("token-auth-file"):
        for token, name, uid, *groups in csv.reader(Path(given).read_text().splitlines()):
            members = ("".join(groups)).split(",") if groups else []
            tokens[token] = User(name, (*filter(None, members), "system:authenticated"), uid)
    folder = Path(flags["cert-dir"])
    pair = KeyPair((folder / "apiserver.crt").read_bytes(), (folder / "apiserver.key").read_bytes())
    context = context_of(
        pair, Path(flags["client-ca-file"]).read_bytes() if "client-ca-file" in flags else pair.certificate
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = ApiServer(
        tokens=tokens,
        rbac="RBAC" in flags.get("authorization-mode", "RBAC"),
        service_accounts="off" if "ServiceAccount" in flags.get("disable-admission-plugins", "") else "full",
        controllers=False,
    )
    async with server, server.http(context=context, port=int(flags["secure-port"])):
        await stop.wait()


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"health":"true"}')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Print nothing."""


def main(words: Sequence[str]) -> None:
    program, flags = words[0], flags_of(words[1:])
    if program == "kube-apiserver":
        asyncio.run(serve(flags))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    place = urlsplit(flags["listen-client-urls"])
    HTTPServer((place.hostname or "127.0.0.1", place.port or 0), _Health).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
