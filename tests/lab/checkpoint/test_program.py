"""The commands of checkpoints: killed, stopped, asked how far they are (I7)."""

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.session import Power
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, sent, state
from tests.lab.checkpoint.taking import read
from tests.lab.checkpoint.test_retention import own, set_up


def test_i07_a_take_that_is_killed_is_gone_on_with_by_the_same_request(
    small_bank: Branch, program: Program, store: BackupStore
) -> None:
    bank = small_bank
    with bank.working(1):
        bank.order(300)
        with program.running("take", *bank.options("--request", "nightly")) as take:
            take.wait_for("checkpoint 1 is acknowledged")
            take.kill()
        bank.order(100)
        refused = program.here("take", *bank.options("--id", "1", "--request", "another"))
        assert refused.code == 3
        again = program.whole("take", *bank.options("--request", "nightly"))
    assert (again["id"], again["state"]) == (1, "completed")
    found = audited(held(store, 1), bank.group, bank.topic, passes_over=False)
    assert found == Books(bank.total, (), ())


def test_a_server_takes_what_is_asked_for_and_goes_on_after_it_was_killed(
    small_bank: Branch, program: Program, store: BackupStore
) -> None:
    options = small_bank.options("--port", "0", serving=True)
    with small_bank.working(1):
        small_bank.order(200)
        with program.running("serve", *options, token=TOKEN) as server:
            address = server.wait_for(BEGINS).split()[1]
            assert asked("POST", address, {"backupId": 7})[0] == 202
            assert asked("POST", address, {"backupId": 7})[0] == 409
            server.kill()
        with program.running("serve", *options, token=TOKEN) as server:
            address = server.wait_for(BEGINS).split()[1]
            wait_until(lambda: state(address, 7) == "COMPLETED", "checkpoint 7")
            assert asked("DELETE", f"{address}/7")[0] == 204
            assert asked("GET", f"{address}/7")[0] == 404
    assert store.read(7) is None


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


RECORDS = 9_000
"""Of three partitions: more than is copied in one piece."""


def vector(bank: Branch) -> tuple[str, ...]:
    return ("--topics", bank.topic, "--level", Level.VECTOR, "--control-topic", bank.control)


def test_a_server_of_a_topic_that_there_is_not_does_not_begin(program: Program) -> None:
    program.store.mkdir()
    done = program.here("serve", "--topics", "nosuch", "--level", "vector", "--port", "0")
    assert (done.code, "nosuch" in done.err, done.out) == (2, True, "")


def test_a_copy_under_way_says_how_far_it_is_and_one_that_is_stopped_how_to_go_on(
    small_bank: Branch, program: Program
) -> None:
    small_bank.order(RECORDS)
    with program.running("take", *vector(small_bank), "--max-rate", "10kB/s") as take:
        take.wait_for("checkpoint 1 is acknowledged")

        def moving() -> bool:
            details = program.whole("status", "1", cluster=False)["details"]
            far = [detail["so_far"] for detail in details if detail["so_far"] is not None]
            # A file that is renamed between two looks leaves unknown where the copy began.
            begun = [one for one in far if one["records"] and one["records_expected_at_most"]]
            for one in begun:
                assert 0 < one["records"] < one["records_expected_at_most"] <= RECORDS
                assert 0 < one["bytes"] < one["bytes_expected_about"]
            return bool(begun)

        wait_until(moving, "a copy under way")
        take.terminate()
        assert take.wait() == 130
        assert f"checkpoint finish 1 --store {program.store}" in " ".join(take.said)
    done = program.whole("finish", "1", "--control-topic", small_bank.control)
    assert done["state"] == "completed"
