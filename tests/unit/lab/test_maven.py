"""Fetching jars: by several processes at once, and after a download that broke off."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from breakglass.services.lab import maven
from breakglass.services.lab.distribution import REPOSITORY_VARIABLE
from breakglass.services.lab.maven import maven_context
from tests.kit.waiting import DEADLINE_SECONDS

JAR = b"PK" + bytes(range(256)) * 512
PATH = "/org/example/thing/1.0/thing-1.0.jar"
FETCHERS = 4


@dataclass(slots=True)
class Repository:
    """A repository on loopback that holds one jar, and cuts its first answers off."""

    broken: int = 0
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    held = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held.asked.append(self.path)
            sha1 = hashlib.sha1(JAR, usedforsecurity=False).hexdigest().encode()
            content = {PATH: JAR, f"{PATH}.sha1": sha1}.get(self.path)
            self.send_response(200 if content else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.path == PATH and held.broken:
                held.broken -= 1
                content = JAR[: len(JAR) // 2]
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(REPOSITORY_VARIABLE, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.setattr(maven, "TIMEOUT_SECONDS", DEADLINE_SECONDS)
        yield held
        server.shutdown()


def fetch() -> Path:
    thing = maven_context().project("org.example", "thing").at_version("1.0")
    return Path(thing.artifact().resolve())


def test_a_jar_is_fetched_once_however_many_want_it_at_once(repository: Repository) -> None:
    with ThreadPoolExecutor(FETCHERS) as pool:
        found = {future.result() for future in [pool.submit(fetch) for _ in range(FETCHERS)]}
    (jar,) = found
    assert jar.read_bytes() == JAR
    assert repository.asked.count(PATH) == 1


def test_a_broken_download_leaves_nothing_behind(repository: Repository, tmp_path: Path) -> None:
    repository.broken = 1
    with pytest.raises((requests.RequestException, RuntimeError)):
        fetch()
    assert not list((tmp_path / "m2").rglob("*.jar"))
    assert fetch().read_bytes() == JAR
