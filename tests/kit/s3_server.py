"""A real S3 server in a process of its own, and a way to it that can be made to fail.

The server is moto's. Everything goes through a proxy of this process, which passes requests on,
answers some of them with 5xx, is silent, or is not there.
"""

import contextlib
import hashlib
import http.client
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from breakglass.services.lab.layout import free_ports
from breakglass.services.topic_backup.store.blobs import Blobs
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

LOOPBACK = "127.0.0.1"
SECONDS = DEADLINE_SECONDS
BUCKET = "backups"
HOP_BY_HOP = {"connection", "date", "server", "transfer-encoding"}
CHECKSUM = "x-amz-checksum-"
MOST_REFUSALS = 2
UNAVAILABLE = b"<Error><Code>ServiceUnavailable</Code><Message>Try again.</Message></Error>"


Forge = Callable[[str, int, bytes], bytes]
VALUE, OTHER = b"v", b"w"
SUM = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


def forged_document(objects: Blobs) -> tuple[str, bytes]:
    """The name of a topic's manifest, and one that has the hashes of the forged records instead.

    Its own hash, the last of it, is right.
    """
    (name,) = (one for one in objects.names() if "manifest" in one)
    content = objects.open(name).read()
    for one in objects.names():
        if one.endswith("_records"):
            records = objects.open(one).read()
            true, false = (hashlib.sha256(some).hexdigest().encode() for some in (
                records, records.replace(VALUE, OTHER)
            ))  # fmt: skip
            assert true in content
            content = content.replace(true, false)
    last = list(SUM.finditer(content))[-1]
    before, behind = content[: last.start(1)], content[last.end(1) :]
    own = hashlib.sha256(before + b"0" * 64 + behind).hexdigest().encode()
    return name, before + own + behind


def forged_after(
    reads: int, of_documents: int | None = None, document: str = "", written: bytes = b""
) -> Forge:
    """Records whose values begin with ``w``, not ``v``, once the true ones were read *reads* times.

    The *document* that has their hash becomes *written* once it was read *of_documents* times.
    """

    def forge(path: str, times: int, content: bytes) -> bytes:
        if path.endswith("_records") and times >= reads:
            return content.replace(VALUE, OTHER)
        if of_documents is not None and path.endswith(document) and times >= of_documents:
            return written
        return content

    return forge


@dataclass
class S3:
    """The server as clients see it."""

    port: int
    server_port: int
    every: int = 0
    """Each so manieth request is answered with 503; 0: none. No request is so more than twice:
    which of several clients meets the next 503 is chance, and they give up in the end.
    """
    after: int | None = None
    """Once so many objects were put, nothing is answered any more."""
    silent: bool = False
    """Requests are accepted and not answered; their connections are closed when it ends."""
    forge: Forge | None = None
    """What is given in place of an object's bytes: by its path, how often it was read, and them."""
    requests: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)
    puts: int = field(default=0, init=False)
    records_read: Counter[str] = field(default_factory=Counter, init=False)
    """Bytes of each records file that clients were given."""
    _given: Counter[str] = field(default_factory=Counter, init=False)
    """The same of each object, since it began to fail."""
    _refusals: Counter[str] = field(default_factory=Counter, init=False)
    """How often each request was refused, by the id that it keeps when it is sent again."""
    answers: threading.Event = field(default_factory=threading.Event, init=False)
    """Set when requests that were accepted in silence are let go."""
    _mutex: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def url(self) -> str:
        """The bucket."""
        return f"s3://{BUCKET}"

    @contextmanager
    def failing(
        self,
        *,
        every: int = 0,
        after: int | None = None,
        silent: bool = False,
        forge: Forge | None = None,
    ) -> Iterator[None]:
        """Make it fail while the block runs."""
        self.refused = self.puts = 0
        self.answers.clear()
        self.every, self.after, self.silent, self.forge = every, after, silent, forge
        self._given.clear()
        try:
            yield
        finally:
            self.every, self.after, self.silent, self.forge = 0, None, False, None
            self.answers.set()

    def verdict(self, method: str, request: str) -> str:
        """What becomes of the next one sent: it passes, is refused, or is not answered."""
        with self._mutex:
            self.requests += 1
            self.puts += method == "PUT"
            if self.after is not None and self.puts > self.after:
                return "silent" if self.silent else "down"
            if self.silent and self.after is None:
                return "silent"
            refused = self.every and self.requests % self.every == 0
            if refused and self._refusals[request] < MOST_REFUSALS:
                self._refusals[request] += 1
                self.refused += 1
                return "refused"
            return "passes"

    def given(self, path: str, content: bytes, whole: int) -> bytes:
        """What a client is given for *content* of an object of *whole* bytes."""
        with self._mutex:
            times = self._given[path] // max(1, whole)
            self._given[path] += len(content)
            if path.endswith("_records"):
                self.records_read[path] += len(content)
        return content if self.forge is None else self.forge(path, times, content)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """The server, with an empty bucket and no credentials that mean anything."""
    server_port, port = free_ports(2)
    log = (folder / "s3.log").open("w")
    words = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(server_port)]
    process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await_bucket(server_port)
        s3 = S3(port, server_port)
        with _proxy(s3):
            yield s3
    finally:
        process.kill()
        process.wait()
        log.close()


def client_files(folder: Path) -> dict[str, str]:
    """The environment of S3's clients: it names files that `write_client_files` fills later."""
    return {
        "AWS_CONFIG_FILE": str(folder / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def write_client_files(folder: Path, s3: S3) -> None:
    """Let every client of this machine's tests find *s3*."""
    endpoint = f"endpoint_url = http://{LOOPBACK}:{s3.port}"
    (folder / "config").write_text(f"[default]\nregion = us-east-1\n{endpoint}\n")
    keys = "aws_access_key_id = nobody\naws_secret_access_key = a-secret-of-the-store\n"
    (folder / "credentials").write_text(f"[default]\n{keys}")


def _await_bucket(port: int) -> None:
    def made() -> bool:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection(LOOPBACK, port, timeout=SECONDS)
            with contextlib.closing(connection):
                connection.request("PUT", f"/{BUCKET}")
                assert connection.getresponse().status == http.client.OK
                return True
        return False

    wait_until(made, "the bucket")


@contextmanager
def _proxy(s3: S3) -> Iterator[None]:
    handler = type("Handler", (_Handler,), {"s3": s3})
    server = ThreadingHTTPServer((LOOPBACK, s3.port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    s3: S3
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        verdict = self.s3.verdict(self.command, self.headers["amz-sdk-invocation-id"])
        if verdict == "silent":
            self.s3.answers.wait()
        if verdict in ("silent", "down"):
            self.close_connection = True
            return
        if verdict == "refused":
            self._answer(http.client.SERVICE_UNAVAILABLE, [], UNAVAILABLE)
            return
        connection = http.client.HTTPConnection(LOOPBACK, self.s3.server_port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            content = answer.read()
            path = self.path.partition("?")[0]
            if self.command == "GET":
                whole = answer.getheader("Content-Range", f"/{len(content)}").rpartition("/")[2]
                content = self.s3.given(path, content, int(whole))
            headers = answer.getheaders()
            if self.s3.forge is not None:
                headers = [one for one in headers if not one[0].lower().startswith(CHECKSUM)]
            self._answer(answer.status, headers, content)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        kept = [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]
        for name, value in kept:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in kept):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Nothing: clients tell what matters."""
