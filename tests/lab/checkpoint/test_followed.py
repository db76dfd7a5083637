"""`serve checkpoints --every` through every fault: it says that checkpoints stop, and goes on."""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from tests.kit.faults import (
    SERVE,
    Fault,
    Lab,
    Report,
    Writer,
    damage,
    on_followed_lab,
    under_faults,
)
from tests.kit.running import Running
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked
from tests.unit.metastore.generating import Generator


@contextmanager
def serving(lab: Lab, topic: str, store: Path, state: Path) -> Iterator[tuple[Running, str]]:
    program = Program(lab.cluster.bootstrap_servers, store, state)
    options = ("--topics", topic, "--level", "vector", "--every", "2s", "--keep", "3")
    given = (*options, "--port", "0", "--write", "--master", "local[1]")
    with program.running("serve", *given, token=TOKEN) as server:
        yield server, server.wait_for(BEGINS).removeprefix("Serving ")


def completed(store: Path) -> int:
    """The newest completed checkpoint; 0 before the first."""
    found = BackupStore(str(store)).all()
    return next((checkpoint.id for checkpoint in found if checkpoint.status is Status.COMPLETED), 0)


def behind_since(address: str) -> float:
    """What the metrics tell."""
    url = urlsplit(address)
    with closing(HTTPConnection(url.netloc, timeout=DEADLINE_SECONDS)) as connection:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        connection.request("GET", "/metrics", headers=headers)
        lines = connection.getresponse().read().decode().splitlines()
    name = "breakglass_checkpoint_behind_since_seconds "
    return float(next(line.removeprefix(name) for line in lines if line.startswith(name)))


@on_followed_lab
@under_faults(SERVE)
def test_a_server_of_checkpoints_goes_on_through(
    fault: Fault, report: Report, followed_lab: Lab, disk: Path, tmp_path: Path
) -> None:
    topic, store = f"orders-{uuid.uuid4().hex[:8]}", disk / "store"
    followed_lab.create(topic)
    Writer(followed_lab, topic).write(Generator(3).records(20))
    with serving(followed_lab, topic, store, tmp_path / "state") as (server, address):
        wait_until(lambda: completed(store), "a first checkpoint")

        def during() -> None:
            if report is Report.NOTHING:
                before = completed(store)
                wait_until(lambda: completed(store) > before, "another one")
                return
            wait_until(
                lambda: any("checkpoints are behind since" in text for text in server.said),
                "that they are behind",
                instead=lambda: server.said,
            )
            assert behind_since(address) > 0

        damage(fault, followed_lab, topic, disk, during)
        before = completed(store)
        wait_until(
            lambda: completed(store) > before, "another one afterwards", instead=lambda: server.said
        )
        wait_until(lambda: behind_since(address) == 0, "that it has caught up")
        status, listed = asked("GET", address)
        assert status == 200, json.dumps(listed)
        assert not server.ended
