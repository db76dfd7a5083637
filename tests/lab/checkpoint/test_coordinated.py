"""Coordinated checkpoints of a bank at work: what they hold conserves the total (H1 to H7)."""

from __future__ import annotations

from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from tests.lab.checkpoint.audit import audited, held, stamps
from tests.lab.checkpoint.bank import Books, order
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking


def test_h01_a_checkpoint_taken_under_load_conserves_the_total(
    bank: Branch, program: Program, store: BackupStore
) -> None:
    with bank.working() as members:
        bank.order(400)
        for id in (1, 2, 3):
            taken = program.whole("take", *bank.options())
            assert (taken["id"], taken["state"], taken["level"]) == (id, "completed", "coordinated")
            bank.order(200)
            members[id % 2].kill()
            members[id % 2].start()
    for id in (1, 2, 3):
        assert audited(
            held(store, id), bank.group, bank.topic, passes_over=bank.at_least_once
        ) == Books(bank.total, (), ())


def test_h02_no_record_before_the_cut_carries_its_id(bank: Branch, taking: Taking) -> None:
    with bank.working():
        bank.order(400)
        taking.take(bank)
        taking.take(bank)
    prefixes = held(taking.store, 2).prefixes
    assert {stamp.sn for records in prefixes.values() for stamp in stamps(records)} == {0, 1}


def test_h04_nothing_that_is_written_after_the_acknowledgement_is_in_it(
    bank: Branch, taking: Taking
) -> None:
    with bank.working(), taking.parts(bank) as (coordinator, finisher):
        bank.order(200)
        assert coordinator.take() == 1
        bank.put([(number, order(f"late.{number}", 1, 3)) for number in range(bank.partitions)])
        bank.order(50)
        finisher.finish(1)
    content = held(taking.store, 1)
    logs = [*content.prefixes.values(), *content.channels.values()]
    assert sum(map(len, logs)) > 200
    assert not [record for log in logs for record in log if b"late" in (record.value or b"")]


def test_a_group_that_has_stopped_with_nothing_left_holds_no_checkpoint_up(
    settled_bank: Branch, taking: Taking
) -> None:
    for id in (1, 2):
        assert (taking.take(settled_bank).status, taking.store.ids()[-1]) == (Status.COMPLETED, id)
