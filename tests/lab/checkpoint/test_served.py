"""A server that others reach: TLS, a token file, retention held back, a stop that loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from breakglass.services.checkpoint.kafka.holding import HELD
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.session import Power
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import TOKEN
from tests.lab.checkpoint.taking import read
from tests.lab.checkpoint.test_retention import own, set_up
from tests.unit.connection.certificates import Identity

KEPT = {"retention.bytes": "5000000"}
COMPACTED = {"cleanup.policy": "compact", **KEPT}
BEGINS = "Serving https://"


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
        with closing(
            HTTPSConnection(url.netloc, timeout=DEADLINE_SECONDS, context=tls)
        ) as connection:
            connection.request(method, url.path, body, headers)
            yield connection

    def asked(self, method: str, address: str, id: int | None = None, token: str = TOKEN) -> int:
        """The answer's status."""
        with self.sent(method, address, id, token) as connection:
            return connection.getresponse().status


def test_a_server_with_tls_takes_compacted_topics_and_answers_what_is_under_way_when_it_is_stopped(
    settled_bank: Branch,
    program: Program,
    whole_broker: Cluster,
    power: Power,
    client: ReadClient,
    tmp_path: Path,
) -> None:
    set_up(power, client, settled_bank.topic, COMPACTED)
    secured, store = Secured.made(tmp_path), BackupStore(str(program.store))
    scope = settled_bank.options("--hold-retention", serving=True)
    options = (*scope, *secured.options)
    with program.running("serve", *options) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert secured.asked("GET", address, token="another-token-here") == 401
        assert secured.asked("POST", address, 1) == 202
        server.wait_for("checkpoint 1  completed")
        wait_until(lambda: own(client, settled_bank.topic) == COMPACTED, "its own settings")
        whole_broker.broker(1).pause()
        try:
            with secured.sent("POST", address, 2) as request:
                # What is answered after that request was read after it.
                assert secured.asked("GET", address) == 200
                server.terminate()
                server.wait_for("stopping: ")
                whole_broker.broker(1).resume()
                assert request.getresponse().status == 202
        finally:
            whole_broker.broker(1).resume()
        wait_until(lambda: server.ended, "the server's end")
        assert server.code == 0
        assert not [text for text in server.said if TOKEN in text]
    with program.running("serve", *options):
        wait_until(lambda: read(store, 2).status is Status.COMPLETED, "checkpoint 2")
        wait_until(lambda: own(client, settled_bank.topic) == COMPACTED, "its own settings")


def test_what_a_killed_server_holds_back_the_next_one_releases(
    settled_bank: Branch, program: Program, power: Power, client: ReadClient, tmp_path: Path
) -> None:
    set_up(power, client, settled_bank.topic, KEPT)
    secured, store = Secured.made(tmp_path), BackupStore(str(program.store))
    scope = settled_bank.options("--hold-retention", "--drain", "4", serving=True)
    options = (*scope, *secured.options)
    settled_bank.order(3)
    with program.running("serve", *options) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert secured.asked("POST", address, 1) == 202
        server.kill()
    assert HELD.items() <= own(client, settled_bank.topic).items()
    with program.running("serve", *options) as server:
        wait_until(
            lambda: read(store).status is Status.FAILED,
            "the end of the drain",
            instead=lambda: server.said,
        )
        wait_until(lambda: own(client, settled_bank.topic) == KEPT, "its own settings")
