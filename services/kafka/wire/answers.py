"""Answers of brokers: partitions by topic, what no broker answers, error codes in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import Any, BinaryIO, Generic, TypeVar

from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    MalformedMessage,
    NotAuthorized,
    NotNow,
)
from breakglass.services.model import Denied, TopicPartition, Unknown

T = TypeVar("T")

NO_OFFSET = 2**62
"""No log reaches this offset; PAST_EVERY_LOG and what brokers may answer for it are above."""


def by_topic(
    partitions: Iterable[TopicPartition], build: Callable[[str, list[TopicPartition]], T]
) -> list[T]:
    """One ``build(topic, its partitions)`` for each topic, both in order."""
    ordered = sorted(partitions, key=attrgetter("topic", "partition"))
    return [build(topic, list(group)) for topic, group in groupby(ordered, attrgetter("topic"))]


def by_partition(
    told: Iterable[tuple[TopicPartition, T]], asked: Collection[TopicPartition], broker: int
) -> dict[TopicPartition, T]:
    """What *broker* says of each partition that was asked for.

    Raises MalformedMessage: it answers for a partition twice, or of one that was not asked for.
    """
    found: dict[TopicPartition, T] = {}
    wanted = asked if isinstance(asked, set | frozenset | dict) else set(asked)
    for partition, value in told:
        if partition in found or partition not in wanted:
            what = "twice for" if partition in found else "for the unasked"
            raise unbelievable(f"b{broker}", f"answers {what} {partition}")
        found[partition] = value
    return found


def only(told: Sequence[T], who: str) -> T:
    """The one entry of an answer about one thing. Raises MalformedMessage if it has not one."""
    if len(told) != 1:
        raise unbelievable(who, f"answers with {len(told)} entries for one")
    return told[0]


def unbelievable(who: str, does: str) -> MalformedMessage:
    """The error for an answer that no broker gives."""
    return MalformedMessage(f"{who} {does}, which no broker does: check what runs at its address")


@dataclass(frozen=True, slots=True)
class CachedAnswer(Generic[T]):
    """An answer in the form that is kept."""

    value: T
    throttle_time_ms: int
    """For how long the broker wants silence (KIP-219)."""


class Unchanged(Generic[T]):
    """Takes the place of a response class where the same request is repeated.

    Keeps the last answer as *convert* makes it, with a digest of its bytes. If *convert* raises,
    the call raises that error and nothing is kept.
    """

    def __init__(self, response_class: Any, convert: Callable[[Any], T]) -> None:
        self.name: str = response_class.name
        self.message_class, self._convert = response_class, convert
        self._digest = b""
        self._told: CachedAnswer[T] | None = None

    def parse_header(self, head: BinaryIO, version: int) -> Any:
        return self.message_class.parse_header(head, version=version)

    def decode(self, body: bytes | memoryview, version: int) -> CachedAnswer[T]:
        """The answer in *body*; the same object as before if the bytes are the same."""
        digest = blake2b(body, salt=b"%d" % version).digest()
        if self._told is None or digest != self._digest:
            answer = self.message_class.decode(body, version=version)
            throttle_ms = getattr(answer, "throttle_time_ms", 0) or 0
            self._told = CachedAnswer(self._convert(answer), throttle_ms)
            self._digest = digest
        return self._told


TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
GROUP_AUTHORIZATION_FAILED = 30
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
AUTHORIZATION_CODES = frozenset(
    {
        TOPIC_AUTHORIZATION_FAILED,
        GROUP_AUTHORIZATION_FAILED,
        CLUSTER_AUTHORIZATION_FAILED,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

UNKNOWN_SERVER_ERROR = -1
CORRUPT_MESSAGE = 2
INVALID_RECORD = 87
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
REQUEST_TIMED_OUT = 7
NETWORK_EXCEPTION = 13
KAFKA_STORAGE_ERROR = 56
UNKNOWN_TOPIC_ID = 100
OFFSET_NOT_AVAILABLE = 78
ELECTION_NOT_NEEDED = 84
OFFSET_MOVED_TO_TIERED_STORAGE = 109


def error_name(code: int) -> str:
    """``NOT_LEADER_OR_FOLLOWER`` for 6; unknown codes keep their number."""
    from kafka.errors import for_code

    error = for_code(code)
    return str(getattr(error, "message", "") or error.__name__)


def retriable(code: int) -> bool:
    """Whether Kafka calls the error transient."""
    from kafka.errors import for_code

    return bool(getattr(for_code(code), "retriable", False))


def describe_error(code: int, message: str | None = None) -> str:
    """The error's name, and the broker's message if it sent one."""
    return f"{error_name(code)}: {message}" if message else error_name(code)


def cluster_error(code: int, doing: str, needs: str, message: str | None = None) -> ClusterError:
    """The exception for an error *code* of *doing*; *needs* names the ACL that is required."""
    if code in AUTHORIZATION_CODES:
        return NotAuthorized(f"{doing} is not allowed: grant {needs} to this user", needs)
    kind = NotNow if retriable(code) else ClusterError
    return kind(
        f"{doing} failed ({describe_error(code, message)}): see the broker's log, then try again"
    )


def denied(needs: str) -> Denied:
    """What stands for a value that the ACL *needs* would show."""
    return Denied(f"not allowed: needs {needs}", needs)


def unread(error: BreakglassError) -> Unknown:
    """What stands for a value that *error* kept from being read."""
    if isinstance(error, NotAuthorized):
        return Denied(str(error), error.needs)
    return Unknown(str(error))
