"""What a reader of a command topic makes of what its client tells: passing, refused, or cut."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from breakglass.services import patience
from breakglass.services.errors import (
    AuthenticationFailed,
    ClusterError,
    NotAuthorized,
    NotNow,
    Unreachable,
)
from breakglass.services.metastore.topic_reader import LogCut, TopicReader

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def reader() -> Iterator[TopicReader]:
    with TopicReader({"bootstrap.servers": NOWHERE}, "t") as found:
        yield found


def test_a_broker_that_goes_away_long_after_the_last_command_ends_nothing(
    reader: TopicReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic may have been quiet for days: only the time since the first failure counts."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("breakglass.services.metastore.topic_reader.time", clock)
    gone = KafkaError(KafkaError._TRANSPORT)
    for now[0] in (1e6, 1e6 + patience.CONSUMER):
        reader._failed(gone)
    now[0] += 0.1
    with pytest.raises(Unreachable, match="cannot be read"):
        reader._failed(gone)


@pytest.mark.parametrize(
    ("code", "raised", "passes"),
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, NotNow, True),
        (KafkaError.LEADER_NOT_AVAILABLE, NotNow, True),
        (KafkaError._UNKNOWN_PARTITION, NotNow, True),
        (KafkaError._AUTO_OFFSET_RESET, LogCut, True),
        (KafkaError._AUTHENTICATION, AuthenticationFailed, False),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AuthenticationFailed, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized, False),
        (KafkaError.INVALID_MSG, ClusterError, False),
    ],
)
def test_what_passes_is_told_from_what_only_the_operator_can_end(
    reader: TopicReader, code: int, raised: type[ClusterError], passes: bool
) -> None:
    with pytest.raises(raised) as found:
        reader._failed(KafkaError(code))
    assert type(found.value) is raised
    assert found.value.passes is passes
