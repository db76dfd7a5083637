"""Vector and verified checkpoints of a bank at work: what each promises, and what it does not."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from breakglass.services.checkpoint.kafka.log_ends import read_logs
from breakglass.services.checkpoint.kafka.scanning import committed_log
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.record import Record
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import Logs, audited, held, worked
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import SECONDS, Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.conftest import OfBank

pytestmark = pytest.mark.slow

PAUSE = 0.3
"""Seconds between two partitions that are read a moment apart."""


def test_h08_a_verified_checkpoint_needs_no_markers_and_conserves_the_total(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    with bank.working():
        bank.order(600)
        for id in (1, 2):
            taken = program.whole("take", *of_bank("--level", "verified"))
            assert (taken["id"], taken["state"], taken["level"]) == (id, "completed", "verified")
            assert taken["promise"].startswith("verified: lowered by")
    least_once = bank.guarantee is Guarantee.AT_LEAST_ONCE
    for id in (1, 2):
        found = audited(held(store, id), bank.group, bank.topic, passes_over=least_once)
        assert (found.total, found.doubled, found.lost) == (bank.total, (), ())


def test_h09_a_vector_is_labelled_unverifiable(
    bank: Branch, program: Program, of_bank: OfBank, store: BackupStore
) -> None:
    with bank.working():
        bank.order(100)
        taken = program.whole("take", *of_bank("--level", "vector"))
    assert taken["state"] == "completed"
    assert "unverifiable" in taken["promise"]
    found = store.read(1)
    assert found is not None
    assert found.started is not None
    assert found.cut is not None
    assert found.cut.positions == found.started.positions


def test_h09_partitions_that_are_read_a_moment_apart_violate_the_total(
    bank: Branch, client: ReadClient
) -> None:
    with bank.working():
        bank.order(600)
        violated = [one for _ in range(3) if (one := _wrong(bank, client)) is not None]
    assert violated


def _wrong(bank: Branch, client: ReadClient) -> Books | None:
    """The books of a vector whose partitions are read one after the other; None if in order."""
    ends: dict[int, int] = {}
    for number in range(bank.partitions):
        ends[number] = _end(bank, client, number)
        with suppress(AssertionError):
            wait_until(partial(_grown, bank, client, number, ends[number]), "more", PAUSE)
    prefixes: Logs = {one: _read(bank, client, one, end) for one, end in ends.items()}
    nothing: Logs = {prefix: [] for prefix in prefixes}
    # The group goes on at the ends, as by offsets that were read with them.
    found = worked(prefixes, nothing, ends, bank.group, bank.topic, passes_over=True)
    in_order = (found.total, found.doubled, found.lost) == (bank.total, (), ())
    return None if in_order else found


def _grown(bank: Branch, client: ReadClient, number: int, end: int) -> bool:
    return _end(bank, client, number) > end + 5


def _end(bank: Branch, client: ReadClient, number: int) -> int:
    deadline = Deadline.after(SECONDS)
    logs = read_logs(client, (bank.topic,), deadline)
    return logs.stable_ends(deadline)[TopicPartition(bank.topic, number)]


def _read(bank: Branch, client: ReadClient, number: int, end: int) -> list[Record]:
    logs = read_logs(client, (bank.topic,), Deadline.after(SECONDS))
    log = committed_log(logs, TopicPartition(bank.topic, number))
    records = (record for batch in log.batches(0, end) for record in batch.records(log.where))
    return [record for record in records if record.offset < end]
