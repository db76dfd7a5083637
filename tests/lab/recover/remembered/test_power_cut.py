"""A broker whose disk nobody has read: what its start would cost, said and saved before it.

`passed` and `power` wait for b1, which led both last. b1 alone has the last records of `passed`;
it lost the last of `power` in a power cut, and b2 and b3 have them, acknowledged by all three. Its
checkpoint of `power` has an epoch that begins at the end that the log had: b1 was elected once more
there, and wrote nothing.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE, lose, lose_last, reorder
from breakglass.services.lab.scenarios.scenario import (
    Scenario,
    Stage,
    alone,
    wait_log_end,
)
from breakglass.services.lab.segments import BEFORE_LENGTH, HEADER
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.rescue.broker_folder import PARTITION_METADATA, read_broker_folder
from tests.kit.program import Ended, breakglass
from tests.lab.asking import on_disk
from tests.lab.console.commands import agreeing, leader, on
from tests.lab.scenarios.damaged import cluster_after

FLUSHED, UNFLUSHED, ON_B1 = 80, 10, 25
WHOLE = FLUSHED + UNFLUSHED
PASSED, POWER = TopicPartition("passed", 0), TopicPartition("power", 0)


def place_of(data: bytes, offset: int) -> int:
    """Where in *data*, whole batches, the batch that begins at *offset* begins."""
    position = 0
    while (header := HEADER.unpack_from(data, position))[0] != offset:
        position += BEFORE_LENGTH + header[1]
    return position


def lose_tail(folder: Path, end: int) -> None:
    """Cut the log of a broker that is down to *end*, where a batch begins, as a power cut does."""
    segment = max(folder.glob("*.log"))
    data = segment.read_bytes()
    segment.write_bytes(data[: place_of(data, end)])


def _break(stage: Stage) -> list[Expectation]:
    cluster = stage.cluster
    stage.create(PASSED.topic, [(1, 2)])
    stage.create(POWER.topic, [(1, 2, 3)])
    stage.write([PASSED, POWER], FLUSHED)
    stage.write([PASSED, POWER], UNFLUSHED)
    for assignment in ((2, 1, 3), (1, 2, 3)):
        reorder(cluster, POWER, assignment)
    lose(cluster, 2)
    stage.write([PASSED], ON_B1)
    lose(cluster, 3)
    lose_last(cluster, 1, back=(2, 3))
    folder = cluster.broker(1).partition_folder(POWER.topic, POWER.partition)
    assert folder is not None
    lose_tail(folder, FLUSHED)
    return []


BROKEN = Scenario("power-cut", __doc__, alone(_break), shape=QUICK_TO_FENCE)


broken = cluster_after(BROKEN)
"""Its tests build on one another, in their order."""


def judged(ended: Ended, topic: str) -> dict[str, Any]:
    """The partition of *topic* in the JSON of a triage."""
    (found,) = [each for each in ended.document["partitions"] if each["topic"] == topic]
    return dict(found)


def return_of(cluster: Cluster, broker: int, partition: TopicPartition) -> tuple[int, str, int]:
    """Exit code of `can-start`, and the fate of *partition* with its records that would be lost."""
    source = [
        word
        for path in cluster.broker(broker).layout.log_dirs
        for word in ("--source", f"log:{path}")
    ]
    ended = on(cluster, "can-start", *source, "--json")
    found = judged(ended, partition.topic)
    return ended.code, found["fate"], found["lost"]


def test_r52_neither_a_log_with_a_hole_nor_a_stray_one_makes_its_broker_safe_to_start(
    broken: Cluster, tmp_path: Path
) -> None:
    (disk,) = broken.broker(1).layout.log_dirs
    copy = Path(shutil.copytree(disk, tmp_path / "copy"))
    (segment,) = (copy / "passed-0").glob("*.log")
    data = segment.read_bytes()
    begin, end = place_of(data, FLUSHED), place_of(data, WHOLE)
    segment.write_bytes(data[:begin] + data[end:])
    shutil.copy(copy / "passed-0" / PARTITION_METADATA, copy / "power-0")
    found = on(broken, "can-start", "--source", f"log:{copy}", "--json")
    (passed,) = [one for one in found.document["partitions"] if one["topic"] == PASSED.topic]
    assert (passed["fate"], passed["leads"]) == ("unknown", True)
    assert [(one["start"], one["end"]) for one in passed["unreadable"]] == [(FLUSHED, WHOLE)]
    power = [one["fate"] for one in found.document["partitions"] if one["topic"] == POWER.topic]
    assert power == ["kept", "unknown"], "set aside, and then b1 would be elected EMPTY"
    assert found.document["safe_to_start"] is False


def test_r27_a_broker_that_an_election_passed_over_is_not_to_be_started_before_it_is_copied(
    broken: Cluster, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    made = on(broken, "plan", "make", "--gone", 1, "--topics", PASSED.topic, "--out", plan)
    assert made.code == 0, made.err
    ended, _ = agreeing(broken, "recover", "--plan", plan)
    assert ended.code == 0, ended.err
    assert leader(broken, PASSED.topic) == 2

    found = on(broken, "triage", "--json")
    assert judged(found, POWER.topic)["action"] == "save b1 first"
    assert [(each["broker"], each["partitions"]) for each in found.document["passed_over"]] == [
        (1, [{"topic": PASSED.topic, "partition": 0}])
    ]
    shown = on(broken, "triage")
    assert any(
        line.startswith("Do not start b1 before its log folders are saved") for line in shown.said
    )
    saving = on(broken, "rescue", "--before-return", 1, "--to", tmp_path, "--json")
    assert saving.code == 1
    assert [each["broker"] for each in saving.document["passed_over"]] == [1]


def test_r46_on_another_machine_the_leaders_epochs_say_whom_an_election_may_have_passed_over(
    broken: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    elsewhere = on(broken, "triage", "--json")
    assert judged(elsewhere, POWER.topic)["action"] == "check b1 first"
    assert elsewhere.document["headline"].startswith("Check the disk of b1 before it starts")


def test_r51_a_log_that_is_shorter_than_its_own_files_say_is_no_leader_of_the_rest(
    broken: Cluster,
) -> None:
    folder = broken.broker(1).partition_folder(POWER.topic, POWER.partition)
    assert folder is not None
    assert read_broker_folder(folder).replicas[0].reached == WHOLE
    assert return_of(broken, 1, POWER) == (1, "lost", UNFLUSHED)


def test_r26_what_the_disk_of_an_unread_leader_may_lack_is_saved_before_it_returns(
    broken: Cluster, tmp_path: Path
) -> None:
    found = on(broken, "triage", "--json")
    power = judged(found, POWER.topic)
    assert power["unproved"] == [1]
    assert power["cut_by_return"]["held_by"] == [2, 3]
    assert power["cut_by_return"]["rescue"] == "breakglass rescue --before-return 1"

    before = on_disk(broken, 2, POWER).identities
    assert return_of(broken, 1, POWER) == (1, "lost", UNFLUSHED)
    saved = on(broken, "rescue", "--before-return", 1, "--to", tmp_path / "saved", "--json")
    (partition,) = [each for each in saved.document["partitions"] if each["topic"] == POWER.topic]
    (place,) = partition["saved"]
    assert partition["reason"] == ""
    assert return_of(broken, 1, POWER)[1:] == ("rescued", 0)

    broken.broker(1).start()
    broken.wait_partition(POWER.topic, 0, lambda state: {1, 2} <= {*state.isr}, "b2 to follow")
    wait_log_end(broken, POWER, FLUSHED, 1, 2, 3)
    lost = before - on_disk(broken, 2, POWER).identities
    assert len(lost) == UNFLUSHED
    printed = breakglass("backup", "cat", place["path"], "--json").out.splitlines()
    assert {offset for _, offset in lost} <= {json.loads(line)["offset"] for line in printed}

    after = on(broken, "triage")
    (seen,) = [line for line in after.said if line.startswith("SEEN:")]
    assert POWER.topic in seen
    assert place["path"] in after.err
