"""When a backup is whole: nothing that should be in it is missing, in doubt or unknown."""

from __future__ import annotations

import pytest

from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.continuous import Followed
from breakglass.services.pipeline.report import BackupReport, PartitionReport, TopicReport
from breakglass.services.topic_backup.summary import Gap, GapReason, Unproved


def report(**of_partition: object) -> BackupReport:
    partition = PartitionReport(TopicPartition("orders", 0), 0, 10)
    for name, value in of_partition.items():
        setattr(partition, name, value)
    return BackupReport([TopicReport("orders", "/backups/orders", partitions=[partition])])


def test_b14_a_run_that_found_records_lost_is_not_whole_and_neither_are_runs_without_an_end() -> (
    None
):
    assert report(missing={"control": 3, "compaction": 2}).whole
    lost = report(lost=[Gap(2, 5, GapReason.LOST)])
    followed = Followed()
    followed.add(report())
    assert followed.whole
    followed.add(lost)
    followed.add(report())
    assert (lost.whole, followed.whole) == (False, False)


@pytest.mark.parametrize(
    "field",
    [
        {"away": True},
        {"groups_not_read": ("billing",)},
        {"error": "full"},
        {"other_log": True},
        {"damages": ["a"]},
    ],
)
def test_what_could_not_be_read_makes_a_run_partial(field: dict[str, object]) -> None:
    partial = report()
    for name, value in field.items():
        setattr(partial if name == "away" else partial.topics[0], name, value)
    assert not partial.whole
    assert not report(unproved=[Unproved(0, 5, "compacted meanwhile")]).whole


def test_s29_offsets_that_nobody_explains_make_a_run_partial() -> None:
    unexplained = report(missing={"unknown": 99})
    followed = Followed()
    followed.add(unexplained)
    assert (unexplained.whole, followed.whole) == (False, False)
