"""Whoever takes a checkpoint is killed, and somebody else goes on (H4, I7, I9)."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level, NumberedPartition, TakeDocument
from breakglass.services.errors import Refused
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.branch import LOG, SECONDS, Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.conftest import OfBank
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, state
from tests.lab.checkpoint.taking import Taking


@pytest.fixture
def bank(broker: Cluster, request: pytest.FixtureRequest) -> Branch:
    name = f"killed-{abs(hash(request.node.name)) % 10**8}"
    return Branch(broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()


@pytest.mark.timeout(300)
def test_i07_a_take_that_is_killed_is_gone_on_with_by_the_same_request(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    with bank.working(1):
        bank.order(300)
        with program.running("take", *of_bank("--request", "nightly")) as take:
            take.wait_for("checkpoint 1 is acknowledged")
            take.kill()
        bank.order(100)
        refused = program("take", *of_bank("--id", "1", "--request", "another"))
        assert refused.code == 3
        assert "Leave --id out for the next one" in refused.err
        again = program.whole("take", *of_bank("--request", "nightly"))
    assert (again["id"], again["state"]) == (1, "completed")
    found = audited(held(store, 1), bank.group, bank.topic, passes_over=False)
    assert (found.total, found.doubled, found.lost) == (bank.total, (), ())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_second_worker_of_the_same_node_is_refused_while_the_first_is_at_work(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    bank.order(30)
    # Nobody works: the take waits for the group.
    with program.running("take", *of_bank("--drain", "120")) as take:
        take.wait_for("checkpoint 1 is acknowledged")
        second = program("finish", "1", "--control-topic", bank.control)
        assert second.code == 3
        assert "node 0 is at work on checkpoint 1" in second.err
        with bank.working(1):
            wait_until(lambda: status(store) is not Status.ONGOING, "checkpoint 1", 120)
    assert status(store) is Status.COMPLETED


def status(store: BackupStore) -> Status:
    found = store.read(1)
    assert found is not None
    return found.status


def test_i09_a_take_that_died_before_its_acknowledgement_fails_when_it_is_finished(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    subjects = tuple(NumberedPartition(number + 1, bank.topic, number) for number in range(3))
    assert store.reserve(TakeDocument(1, Level.COORDINATED, subjects, "nightly", 0)) is None
    ended = program("finish", "1", "--control-topic", bank.control)
    assert ended.code == 3
    assert "was never acknowledged, and has failed by that" in ended.err
    assert "takes over" not in ended.err
    assert status(store) is Status.FAILED


def test_h12_what_the_same_request_completed_of_deleted_topics_is_no_answer(
    bank: Branch, taking: Taking
) -> None:
    from confluent_kafka.admin import AdminClient

    with taking.parts(bank, groups={}) as (coordinator, finisher):
        assert coordinator.take(1, "nightly") == 1
        assert finisher.finish(1).status is Status.COMPLETED
        admin = AdminClient(bank.connection, logger=LOG)
        for future in admin.delete_topics([bank.topic]).values():
            future.result(SECONDS)
        wait_until(
            lambda: not taking.client.partitions((bank.topic,), Deadline.after(10)), "it to go"
        )
        bank.open()
        with pytest.raises(Refused, match="created again"):
            coordinator.take(1, "nightly")
    found = taking.store.read(1)
    assert found is not None
    assert found.status is Status.COMPLETED


@pytest.mark.timeout(300)
def test_a_server_takes_what_is_asked_for_and_goes_on_after_it_was_killed(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    options = of_bank("--port", "0", serving=True)
    with bank.working(1):
        bank.order(200)
        with program.running("serve", *options, token=TOKEN) as server:
            address = server.wait_for(BEGINS).split()[1]
            assert asked("POST", address, {"backupId": 7})[0] == 202
            assert asked("POST", address, {"backupId": 7})[0] == 409
            server.kill()
        with program.running("serve", *options, token=TOKEN) as server:
            address = server.wait_for(BEGINS).split()[1]
            wait_until(lambda: state(address, 7) == "COMPLETED", "checkpoint 7", 120)
            assert asked("DELETE", f"{address}/7")[0] == 204
            assert asked("GET", f"{address}/7")[0] == 404
    assert store.read(7) is None


def test_a_server_that_may_not_write_only_shows(
    bank: Branch, program: Program, of_bank: OfBank
) -> None:
    options = [text for text in of_bank("--port", "0", serving=True) if text != "--write"]
    program.store.mkdir()
    with program.running("serve", *options, token=TOKEN) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert asked("POST", address, {"backupId": 7})[0] == 403
        assert asked("GET", address) == (200, [])
