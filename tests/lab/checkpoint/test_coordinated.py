"""Coordinated checkpoints of a bank at work: what they hold conserves the total (H1 to H7)."""

from __future__ import annotations

from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from tests.lab.checkpoint.audit import audited, held, stamps
from tests.lab.checkpoint.bank import order
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.conftest import OfBank
from tests.lab.checkpoint.taking import Taking


def test_h01_a_checkpoint_taken_under_load_conserves_the_total(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    with bank.working() as members:
        bank.order(400)
        for id in (1, 2, 3):
            taken = program.whole("take", *of_bank())
            assert (taken["id"], taken["state"], taken["level"]) == (id, "completed", "coordinated")
            bank.order(200)
            members[id % 2].kill()
            members[id % 2].start()
    least_once = bank.guarantee is Guarantee.AT_LEAST_ONCE
    for id in (1, 2, 3):
        found = audited(held(store, id), bank.group, bank.topic, passes_over=least_once)
        assert (found.total, found.doubled, found.lost) == (bank.total, (), ())


def test_h02_no_record_before_the_cut_carries_its_id(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    with bank.working():
        bank.order(400)
        program.whole("take", *of_bank())
        program.whole("take", *of_bank())
    content = held(store, 2)
    assert {stamp.sn for records in content.prefixes.values() for stamp in stamps(records)} == {
        0,
        1,
    }


def test_h04_nothing_that_is_written_after_the_acknowledgement_is_in_it(
    bank: Branch, taking: Taking, store: BackupStore
) -> None:
    with bank.working(), taking.parts(bank) as (coordinator, finisher):
        bank.order(200)
        assert coordinator.take() == 1
        bank.put([(number, order(f"late.{number}", 1, 3)) for number in range(bank.partitions)])
        bank.order(50)
        finisher.finish(1)
    content = held(store, 1)
    logs = [*content.prefixes.values(), *content.channels.values()]
    assert sum(map(len, logs)) > 200
    assert not [record for log in logs for record in log if b"late" in (record.value or b"")]


def test_a_group_that_has_stopped_with_nothing_left_holds_no_checkpoint_up(
    bank: Branch, taking: Taking
) -> None:
    bank.order(20, hops=3)
    bank.settle()
    for id in (1, 2):
        assert (taking.take(bank).status, taking.store.ids()[-1]) == (Status.COMPLETED, id)
