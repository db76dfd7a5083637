"""Sources by their addresses, and which two of them can be compared."""

from __future__ import annotations

import pytest

from breakglass.services.divergence.address import SourceAddress, SourceKind, parse_address
from breakglass.services.divergence.opening import refusal
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition

GOOD = {
    "backup:/mnt/b/orders/0": SourceAddress(SourceKind.BACKUP, "/mnt/b", "orders", 0),
    "backup:s3://bucket/b/orders~2/12": SourceAddress(
        SourceKind.BACKUP, "s3://bucket/b", "orders~2", 12
    ),
    "backup:/orders/0": SourceAddress(SourceKind.BACKUP, "/", "orders", 0),
    "rescue:r/b1/ledger/3": SourceAddress(SourceKind.RESCUE, "r/b1", "ledger", 3),
    "topic:orders/0": SourceAddress(SourceKind.TOPIC, "", "orders", 0),
    "replica:2/orders/0": SourceAddress(SourceKind.REPLICA, "2", "orders", 0),
    "replica:b2/orders/0": SourceAddress(SourceKind.REPLICA, "2", "orders", 0),
    "log:/data/my-topic-7": SourceAddress(SourceKind.LOG, "/data", "my-topic", 7),
    "checkpoint:/mnt/c/17/orders/0": SourceAddress(SourceKind.CHECKPOINT, "/mnt/c/17", "orders", 0),
    "metastore:/mnt/m/commands.bak": SourceAddress(
        SourceKind.METASTORE, "/mnt/m/commands.bak", "", 0
    ),
    "log:orders-0": SourceAddress(SourceKind.LOG, ".", "orders", 0),
}


@pytest.mark.parametrize("text", GOOD)
def test_an_address_is_read(text: str) -> None:
    assert parse_address(text) == GOOD[text]


@pytest.mark.parametrize(
    "text", [text for text in GOOD if "b2" not in text and text[:5] != "log:o"]
)
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    if text != "backup:/orders/0":
        assert str(GOOD[text]) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders/0", "names no kind"),
        ("s3://b/orders/0", "names no kind"),
        ("backup:orders/0", "no place, topic and partition: write backup:URL/TOPIC/PARTITION"),
        ("backup:/b/orders/x", "does not end with a partition"),
        ("topic:orders", "no topic and partition: write topic:TOPIC/PARTITION"),
        ("replica:orders/0", "no place, topic and partition: write replica:BROKER"),
        ("replica:x/orders/0", "names no broker by its id"),
        ("checkpoint:/mnt/c/orders/0", "names no checkpoint by its id"),
        ("metastore:", "names no file: write metastore:FILE"),
        ("log:/data/orders", "is no log folder: write log:DIR/TOPIC-PARTITION"),
        ("log:/data/orders-x", "does not end with a partition"),
    ],
)
def test_what_is_no_address_says_what_is_missing(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_address(text)


def test_generations_are_of_their_topic() -> None:
    address = parse_address("backup:/b/orders~2/3")
    assert address.topic_partition == TopicPartition("orders", 3)


def test_only_sources_of_one_partition_have_offsets_in_common() -> None:
    one, other = parse_address("topic:orders/0"), parse_address("log:/data/orders-0")
    assert refusal(one, other) == ""
    assert "no offsets in common" in refusal(one, parse_address("topic:orders/1"))


def test_a_metastore_has_positions_in_common_with_a_command_topic() -> None:
    file = parse_address("metastore:/m")
    assert refusal(file, parse_address("topic:commands/0")) == ""
    assert refusal(file, parse_address("metastore:/other")) == ""
    assert "a command topic is a partition 0" in refusal(parse_address("topic:orders/1"), file)
