"""The commands of a transactional checkpoint: taken, shown, verified, restored, and continued."""

from __future__ import annotations

import uuid

import pytest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.bank import Books, books
from tests.lab.checkpoint.commands import Program
from tests.lab.transactional.kit import offsets_of, wait_for_the_end
from tests.lab.transactional.loop import PlainBank, accounts_of
from tests.lab.transactional.workloads import BankWork

ORDERS, HOPS, AT_LEAST = 30, 10, 60


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_h15_a_transactional_checkpoint_is_taken_verified_and_restored_by_the_commands(
    broker: Cluster, client: ReadClient, program: Program
) -> None:
    bank = PlainBank(broker, f"plain-{uuid.uuid4().hex[:8]}", 3).open()
    scope = ("--topics", bank.topic, "--level", "transactional")
    group = ("--group", f"{bank.group}=exactly-once")
    with bank.working(1):
        bank.order(ORDERS, HOPS)
        wait_until(
            lambda: sum(offsets_of(client, bank.group, (bank.topic,)).values()) > AT_LEAST,
            "records to be processed",
        )
        unnamed = program("take", *scope)
        taken = program.whole("take", *scope, *group)
    assert unnamed.code == 3
    assert f"group {bank.group}" in unnamed.err
    assert (taken["level"], taken["state"]) == ("transactional", "completed")
    shown = program("status", str(taken["id"]), cluster=False)
    assert "so that every transaction is in it as a whole or not at all" in shown.out
    assert program.whole("verify", str(taken["id"]), cluster=False)["whole"]
    wait_for_the_end(client, bank.group, (bank.topic,))
    again = PlainBank(broker, f"{bank.topic}-again", 3, bank.group)
    program.consented("restore", str(taken["id"]), "--map", f"{bank.topic}={again.topic}")
    with again.working(1):
        wait_until(lambda: BankWork(again).idle(client), "the bank to come to the end")
    assert books(accounts_of(again)) == Books(bank.total, (), ())
