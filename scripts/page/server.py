"""The playground's server: the page, and JSON for what is typed into it. For this machine only, unless told otherwise.

A page from elsewhere, open in the same browser, is kept out three ways: its posts carry its own Origin; a name of its
own that it points to this machine comes in the Host header; and other kinds of body than JSON, which a browser would
post without asking, are refused.
"""
from __future__ import annotations

import base64
import errno
import hashlib
import http.server
import ipaddress
import json
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from page import columns

PAGE = Path(__file__).with_name("playground.html")
LARGEST_BODY = 4 << 20  # bytes of a request


def policy(page: str) -> str:
    """A Content-Security-Policy: the page's own style and script and no other, and requests to its own server."""

    def source(tag: str) -> str:
        (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()

    return (
        f"default-src 'none'; script-src 'sha256-{source('script')}'; style-src 'sha256-{source('style')}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )


class Refused(Exception):
    """A request that is answered with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server(http.server.ThreadingHTTPServer):
    """A thread for each request; they end with the program."""

    allow_reuse_address = os.name != "nt"  # on Windows it would let two servers share a port

    def __init__(self, host: str, port: int, table: columns.Table | None = None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.host, self.table = host, table
        self.page = PAGE.read_text(encoding="utf-8")
        self.policy = policy(self.page)
        super().__init__((host, port), Handler)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):  # a browser that closes early is no error
            print(f"playground.py: {error!r}", file=sys.stderr)


class Handler(http.server.BaseHTTPRequestHandler):
    """GET / is the page; POST /tokens, /merges and /row answer JSON with JSON."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "playground", ""
    timeout = 60  # seconds that a connection may be silent

    def do_GET(self) -> None:
        try:
            self._check_host()
            if self.path.partition("?")[0] != "/":
                raise Refused(404, f"nothing is at {self.path:.100}")
            self._answer(200, "text/html; charset=utf-8", self.server.page.encode())
        except Refused as refused:
            self._refuse(refused)

    def do_POST(self) -> None:
        answers = {"/tokens": self._tokens, "/merges": self._merges, "/row": self._row}
        try:
            self._check_host()
            self._check_origin()
            body = self._body()
            if self.path not in answers:
                raise Refused(404, f"nothing is at {self.path:.100}")
            self._answer(200, "application/json", json.dumps(answers[self.path](body)).encode())
        except Refused as refused:
            self._refuse(refused)
        except Exception as error:  # noqa: BLE001  (the server goes on, whatever it was)
            if isinstance(error, (ConnectionError, TimeoutError)):
                raise
            self._refuse(Refused(500, f"{type(error).__name__}: {error}"))

    # what is refused

    def _check_host(self) -> None:
        """Refuse a name that is not ours: a page elsewhere may have had it point to this machine (DNS rebinding)."""
        host = self.headers.get("Host", "")
        name = re.sub(r":\d*$", "", host).strip("[]").lower()
        if name in ("localhost", self.server.host.lower()):
            return
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            raise Refused(403, f"the Host {host!r:.100} is not this server's: {self.server.url}") from None
        if _is_loopback(self.server.host) and not address.is_loopback:
            raise Refused(403, f"the Host {host!r:.100} is not this server's: {self.server.url}")

    def _check_origin(self) -> None:
        """Refuse what a page of another origin has posted."""
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{self.headers['Host']}":
            raise Refused(403, f"a page of {origin:.100} may not post here")
        if self.headers.get_content_type() != "application/json":  # the other types need no permission to be posted
            raise Refused(400, f"the body is {self.headers.get_content_type():.100}, and should be application/json")

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length")
        if length is None:
            raise Refused(411, "the request has no Content-Length")
        if not re.fullmatch("[0-9]{1,18}", length):
            raise Refused(400, f"the Content-Length is {length!r:.100}, no number of bytes")
        if int(length) > LARGEST_BODY:
            self._discard(int(length))
            raise Refused(413, f"the request has {int(length):,} bytes; the most are {LARGEST_BODY:,}")
        data = self.rfile.read(int(length))
        if len(data) < int(length):
            raise Refused(400, f"the request ends after {len(data):,} of {length} bytes")
        try:
            body = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refused(400, f"the body is a JSON {type(body).__name__}, and should be an object")
        return body

    def _discard(self, length: int) -> None:
        """Read a large body and forget it: who still sends would not read the answer."""
        for _ in range(0, min(length, 64 * LARGEST_BODY), 1 << 16):
            if not self.rfile.read(min(length, 1 << 16)):
                break
            length -= 1 << 16

    # what is answered

    def _tokens(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = columns.carve(_field(body, "text", str), _field(body, "specials", bool))
        table = self.server.table
        return {**answer, "table": table and table.column.files}

    def _merges(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        start, end = _field(body, "start", int), _field(body, "end", int)
        return columns.merges(_field(body, "text", str), start, end, _field(body, "specials", bool))

    def _row(self, body: dict[str, Any]) -> dict[str, Any]:
        id = _field(body, "id", int)
        if self.server.table is None:
            raise Refused(404, "no table was given: --table FILE")
        try:
            return self.server.table.row(id)
        except IndexError as error:
            raise Refused(400, str(error)) from None

    def _refuse(self, refused: Refused) -> None:
        self.close_connection = True  # the rest of the request may not have been read
        self._answer(refused.status, "application/json", json.dumps({"error": str(refused)}).encode())

    def _answer(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "Content-Security-Policy": f"{self.server.policy}; frame-ancestors 'none'",
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            **({"Connection": "close"} if self.close_connection else {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: a line for each key pressed says nothing."""


def _field(body: dict[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    if type(value) is not kind:
        raise Refused(400, f"{name!r} is {json.dumps(value):.60}, and should be of type {kind.__name__}")
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def serve(host: str, port: int, table: columns.Table | None) -> None:
    try:
        server = Server(host, port, table)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "is taken; --port names another, --port 0 picks a free one"
            raise ValueError(f"port {port} of {host} {reason}") from None
        raise ValueError(f"cannot serve on {host}, port {port}: {error.strerror or error}") from None
    with server:
        try:
            print(f"the playground is at {server.url}  (Ctrl-C ends it)", flush=True)
            if not _is_loopback(host):
                print("playground.py: other machines can reach it too", file=sys.stderr)
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            print("\nthe playground is closed")
