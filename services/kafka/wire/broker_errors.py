"""Puts Kafka's error codes into words, with what the operator can do."""

from __future__ import annotations

from breakglass.services.errors import BreakglassError, ClusterError, NotAuthorized, NotNow
from breakglass.services.model import Denied, Unknown

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
