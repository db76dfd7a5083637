"""What the commands say of a checkpoint under way, and when stopped."""

from __future__ import annotations

from breakglass.services.checkpoint.store.documents import Level
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program

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
        assert f"checkpoint finish 1 --store {program.store}" in take.said[-1]
    done = program.whole("finish", "1", "--control-topic", small_bank.control)
    assert done["state"] == "completed"
