"""Whoever takes a checkpoint is killed, and somebody else goes on (H4, I7, I9)."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level, NumberedPartition, TakeDocument
from breakglass.services.errors import Refused
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, state
from tests.lab.checkpoint.taking import Taking, read


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


def test_a_second_worker_of_the_same_node_is_refused_while_the_first_is_at_work(
    small_bank: Branch, program: Program, store: BackupStore
) -> None:
    small_bank.order(30)
    # Nobody works: the take waits for the group.
    with program.running("take", *small_bank.options("--drain", "600")) as take:
        take.wait_for("checkpoint 1 is acknowledged")
        second = program.here("finish", "1", "--control-topic", small_bank.control)
        assert second.code == 3
        assert "node 0" in second.err
        with small_bank.working(1):
            wait_until(lambda: read(store).status is not Status.ONGOING, "checkpoint 1")
    assert read(store).status is Status.COMPLETED


def test_i09_a_take_that_died_before_its_acknowledgement_fails_when_it_is_finished(
    small_bank: Branch, program: Program, store: BackupStore
) -> None:
    subjects = tuple(NumberedPartition(one + 1, small_bank.topic, one) for one in range(3))
    assert store.reserve(TakeDocument(1, Level.COORDINATED, subjects, "nightly", 0)) is None
    ended = program.here("finish", "1", "--control-topic", small_bank.control)
    assert ended.code == 3
    assert read(store).status is Status.FAILED


def test_h12_what_the_same_request_completed_of_deleted_topics_is_no_answer(
    small_bank: Branch, taking: Taking
) -> None:
    with taking.parts(small_bank, groups={}) as (coordinator, finisher):
        assert coordinator.take(1, "nightly") == 1
        assert finisher.finish(1).status is Status.COMPLETED
        small_bank.delete()
        small_bank.open()
        with pytest.raises(Refused, match="created again"):
            coordinator.take(1, "nightly")
    assert read(taking.store).status is Status.COMPLETED


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


def test_a_server_that_may_not_write_only_shows(small_bank: Branch, program: Program) -> None:
    options = [one for one in small_bank.options("--port", "0", serving=True) if one != "--write"]
    program.store.mkdir()
    with program.running("serve", *options, token=TOKEN) as server:
        address = server.wait_for(BEGINS).split()[1]
        assert asked("POST", address, {"backupId": 7})[0] == 403
        assert asked("GET", address) == (200, [])
