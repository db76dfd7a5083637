"""Checkpoints restored into topics, where the bank goes on as if nothing had been."""

from __future__ import annotations

import pytest

from breakglass.services.recovery.timeline.shelf import account_of
from tests.lab.checkpoint.bank import books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.conftest import OfBank


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_h06_h07_a_restored_bank_goes_on_and_the_total_is_conserved(
    bank: Branch, program: Program, of_bank: OfBank
) -> None:
    with bank.working():
        bank.order(300)
        program.whole("take", *of_bank())
        bank.order(100)
    restored = bank.restored(f"{bank.topic}-again")
    options = ("--map", f"{bank.topic}={restored.topic}", "--control-topic", bank.control)
    done = program.consented("restore", "1", *options)
    assert done["whole"]
    assert [one["verified"] for one in done["topics"]] == [True]
    assert [one["settings_back"] for one in done["topics"]] == [True]
    assert [(one["target"], one["left_out"]) for one in done["settings"]] == [(restored.topic, {})]
    _, journal = sorted(program.state.glob("**/journal/*/*.jsonl"))
    account = account_of(journal)
    assert (account.brief.result, account.brief.counts) == ("succeeded", {"restored": 6})
    with restored.working():
        restored.order(50)
        again = program.whole("take", *of_bank(topic=restored.topic))
        assert (again["id"], again["state"]) == (2, "completed")
    found = books(restored.settle())
    assert (found.total, found.doubled, found.lost) == (bank.total, (), ())
