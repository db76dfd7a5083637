"""A server that others reach: TLS, a token file, retention held back, a stop that loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from breakglass.services.checkpoint.kafka.holding import HELD
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.session import Power
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import TOKEN
from tests.lab.checkpoint.test_retention import own, set_up
from tests.unit.connection.certificates import Identity

pytestmark = pytest.mark.slow

KEPT = {"retention.bytes": "5000000"}
COMPACTED = {"cleanup.policy": "compact", **KEPT}
BEGINS = "Serving https://"
SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Secured:
    """A server's certificate and token in files, and a client that knows the authority."""

    folder: Path
    authority: Identity

    @classmethod
    def made(cls, folder: Path) -> Secured:
        authority = Identity.authority()
        server = authority.signs("checkpoints", "127.0.0.1")
        (folder / "server.pem").write_text(server.chain_pem)
        (folder / "server.key").write_text(server.key_pem())
        (folder / "token").write_text(TOKEN)
        (folder / "token").chmod(0o600)
        return cls(folder, authority)

    @property
    def options(self) -> tuple[str, ...]:
        certificate, key, token = (
            str(self.folder / name) for name in ("server.pem", "server.key", "token")
        )
        return (
            "--tls-certificate",
            certificate,
            "--tls-key",
            key,
            "--token-file",
            token,
            "--port",
            "0",
        )

    @contextmanager
    def sent(
        self, method: str, address: str, id: int | None = None, token: str = TOKEN
    ) -> Iterator[HTTPSConnection]:
        """A request that was sent over TLS that is verified."""
        url, tls = urlsplit(address), self.authority.trusted()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = None if id is None else json.dumps({"backupId": id})
        with closing(HTTPSConnection(url.netloc, timeout=SECONDS, context=tls)) as connection:
            connection.request(method, url.path, body, headers)
            yield connection

    def asked(self, method: str, address: str, id: int | None = None, token: str = TOKEN) -> int:
        """The answer's status."""
        with self.sent(method, address, id, token) as connection:
            return connection.getresponse().status


@pytest.fixture
def at_rest(broker: Cluster, tmp_path: Path) -> Branch:
    """A bank of three accounts, with nothing under way and nobody at work."""
    name = f"served-{tmp_path.name.replace('_', '-')[-50:]}"
    made = Branch(broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()
    made.order(20, hops=3)
    made.settle()
    return made


@pytest.mark.timeout(300)
def test_a_server_with_tls_takes_compacted_topics_and_answers_what_is_under_way_when_it_is_stopped(
    at_rest: Branch,
    program: Program,
    broker: Cluster,
    power: Power,
    client: ReadClient,
    tmp_path: Path,
) -> None:
    set_up(power, client, at_rest.topic, COMPACTED)
    secured, store = Secured.made(tmp_path), BackupStore(str(program.store))
    scope = ("--topics", at_rest.topic, "--group", f"{at_rest.group}=exactly-once")
    control = ("--control-topic", at_rest.control, "--hold-retention", "--write")
    options = (*scope, *control, *secured.options)
    with program.running("serve", *options) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert secured.asked("GET", address, token="another-token-here") == 401
        assert secured.asked("POST", address, 1) == 202
        server.wait_for("checkpoint 1  completed")
        wait_until(lambda: own(client, at_rest.topic) == COMPACTED, "its own settings")
        broker.broker(1).pause()
        try:
            with secured.sent("POST", address, 2) as request:
                # What is answered after that request was read after it.
                assert secured.asked("GET", address) == 200
                server.terminate()
                server.wait_for("stopping: ")
                broker.broker(1).resume()
                assert request.getresponse().status == 202
        finally:
            broker.broker(1).resume()
        wait_until(lambda: server.ended, "the server's end", SECONDS)
        assert server.code == 0
        assert not [text for text in server.said if TOKEN in text]
    with program.running("serve", *options):
        wait_until(lambda: state(store, 2) is Status.COMPLETED, "checkpoint 2", SECONDS)
        wait_until(lambda: own(client, at_rest.topic) == COMPACTED, "its own settings")


def state(store: BackupStore, id: int) -> Status | None:
    found = store.read(id)
    return None if found is None else found.status


@pytest.mark.timeout(300)
def test_what_a_killed_server_holds_back_the_next_one_releases(
    at_rest: Branch, program: Program, power: Power, client: ReadClient, tmp_path: Path
) -> None:
    set_up(power, client, at_rest.topic, KEPT)
    secured, store = Secured.made(tmp_path), BackupStore(str(program.store))
    scope = ("--topics", at_rest.topic, "--group", f"{at_rest.group}=exactly-once")
    control = ("--control-topic", at_rest.control, "--hold-retention", "--write")
    options = (*scope, *control, "--drain", "4", *secured.options)
    at_rest.order(3)
    with program.running("serve", *options) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert secured.asked("POST", address, 1) == 202
        server.kill()
    assert HELD.items() <= own(client, at_rest.topic).items()
    with program.running("serve", *options) as server:
        wait_until(
            lambda: state(store, 1) is Status.FAILED,
            "the end of the drain",
            SECONDS,
            instead=lambda: (state(store, 1), server.said),
        )
        wait_until(lambda: own(client, at_rest.topic) == KEPT, "its own settings")
