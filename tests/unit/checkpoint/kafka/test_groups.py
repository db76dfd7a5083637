"""Which groups have not come to a cut, and how that is said (H5)."""

from __future__ import annotations

from breakglass.services.checkpoint.kafka.groups import GroupLag, lags, read_by
from breakglass.services.model import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
CUT = {A0: 10, A1: 20, B0: 30}


def test_h05_a_group_is_there_when_every_partition_of_its_topics_is() -> None:
    assert lags({"g": {A0: 10, A1: 25}}, CUT) == ()


def test_a_group_lags_where_it_stands_before_the_cut() -> None:
    assert lags({"g": {A0: 9, A1: 20}}, CUT) == (GroupLag("g", ((A0, 9, 10),)),)


def test_a_partition_of_its_topic_without_an_offset_is_not_processed() -> None:
    assert lags({"g": {A0: 10}}, CUT) == (GroupLag("g", ((A1, 0, 20),)),)


def test_an_empty_partition_needs_no_offset() -> None:
    assert lags({"g": {A0: 10}}, {A0: 10, A1: 0}) == ()


def test_a_group_that_reads_nothing_of_it_is_named_all_the_same() -> None:
    assert [str(lag) for lag in lags({"g": {}}, CUT)] == [
        "group g has committed nothing on these topics"
    ]


def test_topics_that_a_group_does_not_read_are_not_waited_for() -> None:
    assert read_by({A0: 1}, CUT) == {A0: 10, A1: 20}


def test_a_message_names_some_partitions_and_counts_the_others() -> None:
    behind = tuple((TopicPartition("a", number), 0, 9) for number in range(5))
    assert str(GroupLag("g", behind)) == (
        "group g lags: a-0 at 0 of 9, a-1 at 0 of 9, a-2 at 0 of 9 and 2 partitions more"
    )


def test_a_group_that_has_stopped_before_markers_alone_does_not_lag() -> None:
    assert lags({"g": {A0: 9, A1: 18}}, CUT, lambda *_: True) == ()


def test_it_lags_where_there_is_a_record_between() -> None:
    found = lags({"g": {A0: 9, A1: 18}}, CUT, lambda one, *_: one == A0)
    assert found == (GroupLag("g", ((A1, 18, 20),)),)


def test_what_is_far_is_not_looked_through() -> None:
    def looked(*_: object) -> bool:
        raise AssertionError

    assert lags({"g": {A0: 1_000}}, {A0: 2_000}, looked) == (GroupLag("g", ((A0, 1_000, 2_000),)),)
