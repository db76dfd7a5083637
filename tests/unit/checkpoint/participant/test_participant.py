"""Where a participant is and goes on, what led to its outputs, and what it has seen before."""

from confluent_kafka import TopicPartition as Offset

from breakglass.services.checkpoint.kafka.control import (
    Control,
    MovedRecords,
    RecordAddress,
    RecordOrigin,
    RestoredTopic,
    Stamp,
    sn_of,
)
from breakglass.services.checkpoint.participant.participant import (
    InputPosition,
    KnownRecords,
    Starting,
)
from breakglass.services.checkpoint.protocol.values import CheckpointState
from breakglass.services.model import TopicPartition

OLD, NEW = "a" * 32, "b" * 32
PARTITION = TopicPartition("bank", 2)


def test_h03_the_checkpoint_is_committed_with_the_offset() -> None:
    assert sn_of(InputPosition(PARTITION, NEW, 5, CheckpointState(12)).metadata) == 12
    assert sn_of("breakglass sn=12\0") == 12, "the client adds a NUL"


def test_h02_an_output_of_what_a_restore_has_moved_is_told_as_the_one_it_was() -> None:
    restored = RestoredTopic(NEW, 3, {2: (MovedRecords(RecordAddress(OLD, 2, 70), 5, 2),)})
    position = InputPosition(PARTITION, NEW, 5, CheckpointState(3), restored)
    assert position.causes(6, 0, "g") == (
        RecordOrigin(RecordAddress(OLD, 2, 71), 0, "g"),
        RecordOrigin(RecordAddress(NEW, 2, 6), 0, "g"),
    )
    assert position.causes(7, 0, "g")[0] == RecordOrigin(RecordAddress(NEW, 2, 7), 0, "g")


STARTED_TOPIC = "c" * 32


def committed(sn: int) -> Offset:
    metadata = InputPosition(PARTITION, STARTED_TOPIC, 5, CheckpointState(sn)).metadata
    return Offset(PARTITION.topic, PARTITION.partition, 5, metadata=metadata)


def test_h03_a_member_that_is_started_again_knows_the_checkpoint_it_had_come_to() -> None:
    found = Starting({"bank": STARTED_TOPIC}, Control()).position(committed(12))
    assert (found.sn, found.next_offset, found.topic_id) == (12, 5, STARTED_TOPIC)


def test_h03_after_a_restore_the_id_of_the_restored_checkpoint_counts() -> None:
    control = Control(restored={STARTED_TOPIC: RestoredTopic(STARTED_TOPIC, 9, {})})
    starting = Starting({"bank": STARTED_TOPIC}, control)
    nothing = Offset(PARTITION.topic, PARTITION.partition, 5)
    assert starting.position(nothing).sn == 9
    assert starting.position(committed(12)).sn == 12


SEEN_TOPIC = "c" * 32


def record(offset: int, index: int = 0, *, partition: int = 0, group: str = "g") -> Stamp:
    return Stamp(1, RecordOrigin(RecordAddress(SEEN_TOPIC, partition, offset), index, group))


def taken(*stamps: Stamp) -> list[bool]:
    known = KnownRecords()
    return [known.take(stamp) for stamp in stamps]


def test_h07_a_record_that_was_written_twice_is_taken_once() -> None:
    twice = taken(record(1), record(2), record(1), record(2), record(3))
    assert twice == [True, True, False, False, True]


def test_h07_outputs_are_told_apart_by_index_partition_group_and_timeline() -> None:
    elsewhere = Stamp(1, RecordOrigin(RecordAddress("d" * 32, 0, 1), 0, "g"))
    others = (record(1, 1), record(1, partition=1), record(1, group="h"), elsewhere)
    assert taken(record(1), *others, Stamp(0, None), Stamp(0, None)) == [True] * 7


def test_what_was_seen_can_be_noted_and_gone_on_with() -> None:
    before = KnownRecords()
    for stamp in (record(1), record(5, 2), record(3, partition=1)):
        before.take(stamp)
    known = KnownRecords(before.lasts)
    again = (record(5, 2), record(3, partition=1), record(5, 3))
    assert [known.take(stamp) for stamp in again] == [False, False, True]
    assert known.lasts[1:] == before.lasts[1:]
