"""The ledger of a real incident against what lies on the brokers' disks, record by record."""

from collections import Counter
from pathlib import Path
from typing import Any

from breakglass.services.model import TopicPartition
from tests.kit.program import Ended, breakglass
from tests.lab.asking import on_disk
from tests.lab.console.commands import agreeing, elections, on
from tests.lab.recover.rescue.conftest import (
    ABORTED,
    ACCOUNTED,
    B1_ALSO,
    COMMITTED,
    OPEN,
    SHARED,
    TRIMMED,
)
from tests.lab.recover.rescue.test_rescue import elect
from tests.lab.scenarios.damaged import Damaged

MARKERS = 2
FATES = ("kept", "put back", "rescued", "lost", "waiting", "unknown")


def report(lab: Damaged, *more: object) -> Ended:
    ended = on(lab.cluster, "report", "--json", *more)
    assert ended.code == 0, ended.err
    return ended


def sums(one: dict[str, Any]) -> dict[str, int]:
    """Records by fate, those fates that have any."""
    found = {fate: one["sums"][fate]["records"] for fate in FATES}
    return {fate: records for fate, records in found.items() if records}


def by_offset(one: dict[str, Any], broker: int) -> Counter[str]:
    """How many offsets of that replica have each fate."""
    (replica,) = (found for found in one["replicas"] if found["broker"] == broker)
    counted: Counter[str] = Counter()
    for entry in replica["offsets"]:
        counted[entry["fate"]] += entry["end"] - entry["start"]
    return counted


def true_sums(
    lab: Damaged, partition: TopicPartition, designee: int, other: int
) -> tuple[int, int, int]:
    """By the segments on disk: records of both, of the designee, and of the other alone."""
    chosen = on_disk(lab.cluster, designee, partition).identities
    loser = on_disk(lab.cluster, other, partition).identities
    return len(chosen | loser), len(chosen), len(loser - chosen)


def partition_of(document: dict[str, Any], partition: TopicPartition) -> dict[str, Any]:
    (found,) = (
        one
        for one in document["partitions"]
        if (one["topic"], one["partition"]) == (partition.topic, partition.partition)
    )
    return dict(found)


def test_r10_the_ledger_of_an_election_is_what_the_disks_held(lab: Damaged, tmp_path: Path) -> None:
    *_, plain = ACCOUNTED
    held, kept, beyond = true_sums(lab, plain, 2, 1)
    assert (held, beyond) == (SHARED + B1_ALSO, B1_ALSO)
    path = elections(tmp_path, {plain: 2})
    by_plan, by_log = tmp_path / "by-plan", tmp_path / "by-log"
    assert on(lab.cluster, "rescue", "--plan", path, "--to", by_plan).code == 0
    disk = lab.cluster.broker(3).layout.log_dirs[0]
    words = ("rescue", "--source", f"log:{disk}", "--topics", plain.topic, "--to", by_log)
    assert breakglass(*words).code == 0
    ended = elect(lab.cluster, path, "--without-rescue")
    assert ended.code == 0, ended.err
    for beside in (by_plan, by_log):
        # b3 led when b1 got its records, so the copy of b3's log has them too.
        document = report(lab, "--rescued", beside).document
        one = partition_of(document, plain)
        assert (document["adds_up"], one["held"]) == (True, held)
        assert sums(one) == {"kept": kept, "rescued": beyond}
        assert by_offset(one, 1) == {"kept": kept, "rescued": beyond}
    document = report(lab).document
    one = partition_of(document, plain)
    assert document["adds_up"] is True
    assert one["held"] == held
    assert sums(one) == {"kept": kept, "lost": beyond}
    assert by_offset(one, 1) == {"kept": kept, "lost": beyond}
    assert one["confirmed"] is True
    (unread,) = document["unread"]
    assert unread["broker"] == 3


def test_the_ledger_follows_an_incident_to_what_was_put_back(lab: Damaged, tmp_path: Path) -> None:
    tail, head, _ = ACCOUNTED
    tails, heads = true_sums(lab, tail, 2, 1), true_sums(lab, head, 1, 2)
    assert tails[2] == COMMITTED + ABORTED + OPEN + MARKERS
    assert heads == (SHARED, SHARED - TRIMMED, TRIMMED)
    plan = elections(tmp_path, {tail: 2, head: 1})
    saved = tmp_path / "saved"
    ended = elect(lab.cluster, plan, "--rescue-to", saved)
    assert ended.code == 0, ended.err

    document = report(lab).document
    assert (document["adds_up"], document["held"]) == (True, tails[0] + heads[0])
    assert sums(partition_of(document, tail)) == {"kept": tails[1], "rescued": tails[2]}
    assert sums(partition_of(document, head)) == {"kept": heads[1], "rescued": heads[2]}
    assert by_offset(partition_of(document, head), 2) == {"kept": heads[1], "rescued": heads[2]}
    assert all(one["confirmed"] is True for one in document["partitions"])
    journal = document["journal"]

    (place,) = saved.glob("*/*")
    words = ["backup", "restore", "--tail-of", plan, "--from", place]
    ended, _ = agreeing(lab.cluster, *words, "--state", tmp_path / "state", "--json")
    assert ended.code == 0, ended.err
    (done,) = (one for one in ended.document["topics"] if one["records"])
    assert done["records"] == COMMITTED

    document = report(lab, journal).document
    one = partition_of(document, tail)
    assert sums(one) == {"kept": tails[1], "put back": COMMITTED, "rescued": tails[2] - COMMITTED}
    assert by_offset(one, 1) == {
        "kept": tails[1],
        "put back": COMMITTED,
        "rescued": tails[2] - COMMITTED,
    }
    assert (document["adds_up"], len(document["put_back_by"])) == (True, 1)
