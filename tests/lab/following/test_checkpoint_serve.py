"""`checkpoint serve --every` through every fault: it says that checkpoints stop, and goes on."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.commands import Program, Running
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked
from tests.lab.following.cells import SERVE, Report, cells
from tests.lab.following.faults import Fault, damage
from tests.lab.following.lab import Lab, Writer
from tests.unit.metastore.generating import Generator

EVERY = "2s"
SECONDS = 240


@contextmanager
def serving(lab: Lab, topic: str, store: Path, state: Path) -> Iterator[tuple[Running, str]]:
    program = Program(lab.cluster.bootstrap_servers, store, state)
    options = ("--topics", topic, "--level", "vector", "--every", EVERY, "--keep", "3")
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
    with closing(HTTPConnection(url.netloc, timeout=60)) as connection:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        connection.request("GET", "/metrics", headers=headers)
        lines = connection.getresponse().read().decode().splitlines()
    name = "breakglass_checkpoint_behind_since_seconds "
    return float(next(line.removeprefix(name) for line in lines if line.startswith(name)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("fault", "report"), cells(SERVE))
def test_a_server_of_checkpoints_goes_on_through(
    fault: Fault, report: Report, lab: Lab, disk: Path, tmp_path: Path
) -> None:
    topic, store = f"orders-{uuid.uuid4().hex[:8]}", disk / "store"
    lab.create(topic)
    Writer(lab, topic).write(Generator(3).records(20))
    with serving(lab, topic, store, tmp_path / "state") as (server, address):
        wait_until(lambda: completed(store), "a first checkpoint", SECONDS)

        def during() -> None:
            if report is Report.NOTHING:
                before = completed(store)
                wait_until(lambda: completed(store) > before, "another one", SECONDS)
                return
            wait_until(
                lambda: any("checkpoints are behind since" in text for text in server.said),
                "that they are behind",
                SECONDS,
                instead=lambda: server.said,
            )
            assert behind_since(address) > 0

        damage(fault, lab, topic, disk, during)
        before = completed(store)
        wait_until(
            lambda: completed(store) > before,
            "another one afterwards",
            SECONDS,
            instead=lambda: server.said,
        )
        wait_until(lambda: behind_since(address) == 0, "that it has caught up", SECONDS)
        status, listed = asked("GET", address)
        assert status == 200, json.dumps(listed)
        assert not server.ended
