"""What members are assigned, and where a group's offsets lie, as Kafka's own clients compute it."""

from __future__ import annotations

import struct

import pytest

from breakglass.services.checkpoint.kafka.group_evidence import assigned_topics
from breakglass.services.checkpoint.kafka.transaction_logs import log_of
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC

ASSIGNMENT = (
    struct.pack(">hi", 1, 2)
    + b"\x00\x06orders"
    + struct.pack(">iii", 2, 0, 1)
    + b"\x00\x05carts"
    + struct.pack(">ii", 1, 7)
    + struct.pack(">i", -1)
)


def test_the_topics_of_an_assignment_are_read() -> None:
    assert assigned_topics(ASSIGNMENT) == {"orders", "carts"}
    assert assigned_topics(b"") == set()


@pytest.mark.parametrize("length", range(1, len(ASSIGNMENT) - 4))
def test_what_is_no_assignment_names_no_topic(length: int) -> None:
    assert assigned_topics(ASSIGNMENT[:length]) == set()


@pytest.mark.parametrize(
    ("group", "partition"),
    # Hash codes 97, 99162322, -2147483648 (counted as 0), 7604755 and -109829509, modulo 50.
    [("a", 47), ("hello", 22), ("polygenelubricants", 0), ("\u00fcber", 5), ("billing", 9)],
)
def test_the_offsets_of_a_group_lie_where_its_name_says(group: str, partition: int) -> None:
    assert log_of(group, OFFSETS_TOPIC, 50).partition == partition
