"""What the commands say of a checkpoint under way, of one that is refused, and when stopped."""

from __future__ import annotations

import uuid

import pytest

from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.session import Power
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.test_retention import COMPACTED, set_up

RECORDS = 9_000
"""Of three partitions: more than is copied in one piece."""


@pytest.fixture
def bank(broker: Cluster) -> Branch:
    """Three partitions that nobody works on."""
    name = f"said-{uuid.uuid4().hex[:8]}"
    return Branch(broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()


def vector(bank: Branch) -> tuple[str, ...]:
    return ("--topics", bank.topic, "--level", Level.VECTOR, "--control-topic", bank.control)


def test_level_state_and_promise_are_on_stdout_and_partitions_have_their_names(
    bank: Branch, program: Program
) -> None:
    done = program("take", *vector(bank))
    assert done.code == 0, done.err
    head, promised, *_ = done.out.splitlines()
    assert head.startswith("checkpoint 1  vector  completed  3 of 3 partitions copied")
    assert "nothing is promised" in promised
    told = [line for line in done.err.splitlines() if line.endswith("  completed")]
    assert sorted(told) == [f"{bank.topic}-{number}  completed" for number in (0, 1, 2)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_restore_names_level_and_promise_on_stdout(bank: Branch, program: Program) -> None:
    program.whole("take", *vector(bank))
    options = ("restore", "1", "--suffix", "-again", "--control-topic", bank.control)
    planned = program(*options, "--dry-run").document
    assert (planned["id"], planned["level"], planned["state"]) == (1, "vector", "completed")
    assert "nothing is promised" in planned["promise"]
    done = program(*options, "--write", "--consent", planned["phrase"])
    assert done.code == 0, done.err
    head, promised, *_ = done.out.splitlines()
    assert head == "checkpoint 1  vector  completed"
    assert promised == planned["promise"]


def test_a_take_of_what_there_is_not_prints_its_reason_as_json(program: Program) -> None:
    done = program("take", "--topics", "nosuch", "--level", "vector", "--json")
    assert done.code == 2
    assert (done.document["id"], done.document["level"]) == (None, "vector")
    assert "nosuch" in done.document["failure"]


@pytest.mark.parametrize("write", [(), ("--write",)], ids=["read-only", "writing"])
def test_a_server_of_a_topic_that_there_is_not_does_not_begin(
    program: Program, write: tuple[str, ...]
) -> None:
    program.store.mkdir()
    done = program("serve", "--topics", "nosuch", "--level", "vector", "--port", "0", *write)
    assert done.code == 2
    assert "nosuch" in done.err
    assert "Serving" not in done.err


def test_a_server_that_only_shows_does_not_begin_without_a_store(program: Program) -> None:
    done = program("serve", "--topics", "any", "--level", "vector", "--port", "0")
    assert done.code == 2
    assert "There is no folder" in done.err
    assert "token" not in done.err


def test_a_compacted_topic_is_refused_with_the_command_that_takes_it(
    bank: Branch, program: Program, power: Power, client: ReadClient
) -> None:
    set_up(power, client, bank.topic, COMPACTED)
    scope = ("--topics", bank.topic, "--control-topic", bank.control)
    done = program("take", *scope, "--level", "verified")
    assert done.code == 3
    assert "`breakglass checkpoint take --hold-retention`" in done.err
    assert done.out.splitlines()[0].startswith("checkpoint 1  verified  failed")


def test_a_copy_under_way_says_how_far_it_is_and_one_that_is_stopped_how_to_go_on(
    bank: Branch, program: Program
) -> None:
    bank.order(RECORDS)
    with program.running("take", *vector(bank), "--max-rate", "10kB/s") as take:
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
        assert " of <= " in program("status", "1", cluster=False).out
        take.terminate()
        told = take.wait_for("checkpoint 1 is acknowledged, and not copied yet")
        assert f"`breakglass checkpoint finish 1 --store {program.store}" in told
        take.kill()
    done = program("finish", "1", "--control-topic", bank.control)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].startswith("checkpoint 1  vector  completed")
