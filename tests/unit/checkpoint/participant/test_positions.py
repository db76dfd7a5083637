"""Where a participant is: what it commits beside its offset, and what it says led to an output."""

from __future__ import annotations

import pytest

from breakglass.services.checkpoint.kafka.control import MovedRecords, RestoredTopic
from breakglass.services.checkpoint.kafka.stamps import RecordAddress, RecordOrigin
from breakglass.services.checkpoint.participant.positions import InputPosition, sn_of
from breakglass.services.checkpoint.protocol.participant import CheckpointState
from breakglass.services.model import TopicPartition

OLD, NEW = "a" * 32, "b" * 32
PARTITION = TopicPartition("bank", 2)


def test_h03_the_checkpoint_is_committed_with_the_offset() -> None:
    assert sn_of(InputPosition(PARTITION, NEW, 5, CheckpointState(12)).metadata) == 12


def test_h03_a_nul_that_the_client_has_added_does_not_hide_it() -> None:
    assert sn_of("breakglass sn=12\0") == 12


@pytest.mark.parametrize("metadata", [None, "", "sn=4", "breakglass sn=-4", "breakglass sn=٣"])
def test_metadata_of_others_says_nothing(metadata: str | None) -> None:
    assert sn_of(metadata) == 0


def test_h02_an_output_names_its_input_in_this_timeline() -> None:
    here = RecordOrigin(RecordAddress(NEW, 2, 5), 1, "g")
    assert InputPosition(PARTITION, NEW, 5, CheckpointState(0)).causes(5, 1, "g") == (here, here)


def test_h02_an_output_of_what_a_restore_has_moved_is_told_as_the_one_it_was() -> None:
    restored = RestoredTopic(NEW, 3, {2: (MovedRecords(RecordAddress(OLD, 2, 70), 5, 2),)})
    position = InputPosition(PARTITION, NEW, 5, CheckpointState(3), restored)
    assert position.causes(6, 0, "g") == (
        RecordOrigin(RecordAddress(OLD, 2, 71), 0, "g"),
        RecordOrigin(RecordAddress(NEW, 2, 6), 0, "g"),
    )
    assert position.causes(7, 0, "g")[0] == RecordOrigin(RecordAddress(NEW, 2, 7), 0, "g")
