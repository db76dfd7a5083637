"""A server of checkpoints is stopped: it answers what is under way, and loses nothing."""

from __future__ import annotations

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.session import Power
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, sent
from tests.lab.checkpoint.taking import read
from tests.lab.checkpoint.test_retention import own, set_up

COMPACTED = {"cleanup.policy": "compact", "retention.bytes": "5000000"}


def test_a_server_takes_compacted_topics_and_answers_what_is_under_way_when_it_is_stopped(
    settled_bank: Branch,
    program: Program,
    store: BackupStore,
    whole_broker: Cluster,
    power: Power,
    client: ReadClient,
) -> None:
    set_up(power, client, settled_bank.topic, COMPACTED)
    options = settled_bank.options("--hold-retention", "--port", "0", serving=True)
    with program.running("serve", *options, token=TOKEN) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert asked("POST", address, {"backupId": 1})[0] == 202
        server.wait_for("checkpoint 1  completed")
        wait_until(lambda: own(client, settled_bank.topic) == COMPACTED, "its own settings")
        whole_broker.broker(1).pause()
        try:
            with sent("POST", address, {"backupId": 2}) as request:
                # What is answered after that request was read after it.
                assert asked("GET", address)[0] == 200
                server.terminate()
                server.wait_for("stopping: ")
                whole_broker.broker(1).resume()
                assert request.getresponse().status == 202
        finally:
            whole_broker.broker(1).resume()
        assert server.wait() == 0
    with program.running("serve", *options, token=TOKEN):
        wait_until(lambda: read(store, 2).status is Status.COMPLETED, "checkpoint 2")
        wait_until(lambda: own(client, settled_bank.topic) == COMPACTED, "its own settings")
