"""What a stream begins with, and what it is told of each of its batches."""

from __future__ import annotations

import pytest

from services.errors import PipelineError
from services.model import TopicPartition
from services.pipeline.stream import by_topic, planned_ends

ENDS = {TopicPartition("a", 0): 5, TopicPartition("a", 1): 0, TopicPartition("b.c", 12): 2**40}


def test_offsets_are_by_topic_and_partition() -> None:
    assert by_topic(ENDS) == {"a": {0: 5, 1: 0}, "b.c": {12: 2**40}}


def test_the_last_line_of_the_checkpoint_has_the_ends() -> None:
    text = 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":5,"1":0},"b.c":{"12":1099511627776}}'
    assert planned_ends(text) == ENDS


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}\n[1]", 'v1\n{}\n{"a": 1}', 'v1\n{"a":{"x":1}}'])
def test_a_checkpoint_of_another_form_ends_the_stream(text: str) -> None:
    with pytest.raises(PipelineError, match="another form"):
        planned_ends(text)
