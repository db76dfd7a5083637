"""What a broker's refusal of records means: try again, give up, or let the operator act."""

from __future__ import annotations

from collections.abc import Mapping

from breakglass.services.errors import (
    BreakglassError,
    CannotProduce,
    ClusterError,
    NotAuthorized,
    TimedOut,
)
from breakglass.services.kafka.wire.broker_errors import AUTHORIZATION_CODES, describe_error

COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
CONCURRENT_TRANSACTIONS = 51
TRANSIENT = frozenset({
    COORDINATOR_LOADING,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    CONCURRENT_TRANSACTIONS,
    3,   # UNKNOWN_TOPIC_OR_PARTITION: not known there yet
    5,   # LEADER_NOT_AVAILABLE
    6,   # NOT_LEADER_OR_FOLLOWER
    7,   # REQUEST_TIMED_OUT
    13,  # NETWORK_EXCEPTION
    19,  # NOT_ENOUGH_REPLICAS
    20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    56,  # KAFKA_STORAGE_ERROR
    74,  # FENCED_LEADER_EPOCH
    75,  # UNKNOWN_LEADER_EPOCH
    100, # UNKNOWN_TOPIC_ID
})  # fmt: skip
"""What another broker, or the same one a moment later, answers otherwise."""
STEPS: Mapping[int, str] = {
    10: "raise message.max.bytes of the brokers",
    29: "grant WRITE on it",
    30: "grant READ on groups that begin with breakglass-restore-",
    31: "grant IDEMPOTENT_WRITE on the cluster",
    44: "see the cluster's policy",
    53: "grant WRITE on transactional ids that begin with breakglass-restore-",
    87: "see the broker's log",
}
"""What is to be done about errors that another attempt meets again."""


def refusal(code: int, where: str, message: str | None = None) -> BreakglassError:
    """The exception for the error *code* that was met while producing to *where*."""
    told = describe_error(code, message)
    if code in TRANSIENT:
        return TimedOut(f"{where} does not take records now ({told}): try again.", told)
    step = STEPS.get(code)
    if step is None:
        return ClusterError(f"{where} does not take records ({told}): try again.")
    kind = NotAuthorized if code in AUTHORIZATION_CODES else CannotProduce
    return kind(f"{where} does not take records ({told}): {step}.")
