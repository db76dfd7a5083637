"""Whoever takes a checkpoint is killed, and somebody else goes on (I7)."""

from __future__ import annotations

from breakglass.services.checkpoint.store.backup_store import BackupStore
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.served import BEGINS, TOKEN, asked, state


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
