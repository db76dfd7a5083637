"""From where a member goes on that is started again: the checkpoint beside its offset counts."""

from __future__ import annotations

from confluent_kafka import TopicPartition as Offset

from breakglass.services.checkpoint.kafka.control import Control, RestoredTopic
from breakglass.services.checkpoint.participant.participant import Starting
from breakglass.services.checkpoint.participant.positions import InputPosition
from breakglass.services.checkpoint.protocol.participant import CheckpointState
from breakglass.services.model import TopicPartition

TOPIC_ID = "c" * 32
PARTITION = TopicPartition("bank", 2)


def committed(sn: int) -> Offset:
    metadata = InputPosition(PARTITION, TOPIC_ID, 5, CheckpointState(sn)).metadata
    return Offset(PARTITION.topic, PARTITION.partition, 5, metadata=metadata)


def test_h03_a_member_that_is_started_again_knows_the_checkpoint_it_had_come_to() -> None:
    found = Starting({"bank": TOPIC_ID}, Control()).position(committed(12))
    assert (found.sn, found.next_offset, found.topic_id) == (12, 5, TOPIC_ID)


def test_h03_after_a_restore_the_id_of_the_restored_checkpoint_counts() -> None:
    control = Control(restored={TOPIC_ID: RestoredTopic(TOPIC_ID, 9, {})})
    starting = Starting({"bank": TOPIC_ID}, control)
    nothing = Offset(PARTITION.topic, PARTITION.partition, 5)
    assert starting.position(nothing).sn == 9
    assert starting.position(committed(12)).sn == 12
