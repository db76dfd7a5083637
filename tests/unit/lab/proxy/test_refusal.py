"""Error answers made from requests."""

from __future__ import annotations

from typing import Any

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.proxy.rewriting import classes_of, message_classes, refusal

NOT_LEADER = 6


def versions() -> list[Any]:
    """Every version of every api that we have schemas of."""
    return [
        pytest.param(key, version, id=f"{response_class.__name__}-{version}")
        for key, (_, response_class) in sorted(message_classes().items())
        for version in (0, response_class.max_version)
    ]


@pytest.mark.parametrize(("api_key", "version"), versions())
def test_every_api_can_be_refused(api_key: int, version: int) -> None:
    request_class, response_class = classes_of(api_key)
    assert refusal(request_class(), response_class, NOT_LEADER).encode(version=version)


def test_an_api_without_schema_cannot() -> None:
    with pytest.raises(LabError, match="No schema of api key 999"):
        classes_of(999)


def elections() -> Any:
    request_class = classes_of(43)[0]
    topic = request_class.TopicPartitions(topic="orders", partitions=[0, 3])
    return request_class(election_type=1, topic_partitions=[topic], timeout_ms=1)


def test_numbers_of_partitions_become_results() -> None:
    answer = refusal(elections(), classes_of(43)[1], 41)
    (topic,) = answer.replica_election_results
    assert answer.error_code == 0
    assert [(topic.topic, one.partition_id, one.error_code) for one in topic.partition_result] == [
        ("orders", 0, 41),
        ("orders", 3, 41),
    ]


def test_a_whole_refusal_names_no_partition() -> None:
    answer = refusal(elections(), classes_of(43)[1], 41, whole=True)
    assert (answer.error_code, answer.replica_election_results) == (41, [])


def test_fetch_is_refused_under_its_own_names() -> None:
    request_class, response_class = classes_of(1)
    topic_class = request_class.FetchTopic
    request = request_class(
        topics=[topic_class(topic="orders", partitions=[topic_class.FetchPartition(partition=3)])]
    )
    (topic,) = refusal(request, response_class, 74).responses
    assert (topic.topic, topic.partitions[0].partition_index, topic.partitions[0].error_code) == (
        "orders",
        3,
        74,
    )


def test_keys_become_coordinators() -> None:
    request_class, response_class = classes_of(10)
    (told,) = refusal(request_class(coordinator_keys=["g"]), response_class, 15).coordinators
    assert (told.key, told.error_code) == ("g", 15)


def test_an_answer_without_items_is_refused_as_a_whole() -> None:
    request_class, response_class = classes_of(60)
    assert refusal(request_class(), response_class, 31).error_code == 31
