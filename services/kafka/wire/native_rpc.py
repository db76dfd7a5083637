"""Finds out whether a cluster supports KIP-1275's requests.

An api key alone proves nothing (Kafka's trunk gave 93 to another request), so `auto` requires that
the brokers advertise both the key and ElectLeaders v3, and that one answer parses exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, UsageError
from breakglass.services.kafka.wire.answers import AUTHORIZATION_CODES
from breakglass.services.kafka.wire.api_keys import ELECT_LEADERS
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import DEFAULT_API_KEY, DESIGNATED_SINCE
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender

if TYPE_CHECKING:
    from breakglass.services.kafka.wire.messages.kip1275 import ReplicaLogInfoMessages

LAST_ASSIGNED_KEY = 92
"""The highest api key of Kafka 4.3: all keys up to it belong to other requests."""

AUTO = "auto"
OFF = "off"

NOT_ALLOWED = (
    "GetReplicaLogInfo is not allowed: needs CLUSTER_ACTION on CLUSTER and DESCRIBE on the topic"
)


@dataclass(frozen=True, slots=True)
class NativeRpc:
    """The parts of KIP-1275 that the brokers support."""

    log_info: ReplicaLogInfoMessages | None
    """GetReplicaLogInfo in the form that answered; None: log ends come from ListOffsets."""
    designates: bool
    """ElectLeaders takes designated leaders; False: reorder and unclean election."""
    reason: str
    """The reason, such as ``the brokers do not advertise api key 93``."""

    @property
    def summary(self) -> str:
        """Which requests are used, and why, for a header."""
        if self.log_info is None and not self.designates:
            return f"stock requests: {self.reason}"
        elections = "designated elections" if self.designates else "reorder + unclean elections"
        return f"{self.reason}; {elections}"


STOCK = NativeRpc(None, False, "the brokers were not asked for more, for nothing is offline")
SWITCHED_OFF = NativeRpc(None, False, "switched off by --native-rpc off")


def native_key(choice: str) -> int | None:
    """The api key that *choice* (``auto``, ``off`` or a number) allows to be sent, if any.

    Raises:
        UsageError: *choice* is neither word nor a free key. Kafka's own keys are refused, because
            some of them change a cluster and read-only sessions send this key too.
    """
    if choice == OFF:
        return None
    if choice == AUTO:
        return DEFAULT_API_KEY
    if not (choice.isascii() and choice.isdigit() and LAST_ASSIGNED_KEY < int(choice) < 2**15):
        raise UsageError(
            f"--native-rpc takes auto, off, or the api key of GetReplicaLogInfo above "
            f"{LAST_ASSIGNED_KEY}, not {choice!r}"
        )
    return int(choice)


def find_native_rpc(
    sender: Sender, choice: str, topic_id: UUID, partition: int, deadline: Deadline
) -> NativeRpc:
    """Ask the bootstrap broker what it supports, by one question about one partition.

    Raises Unreachable: no bootstrap server answers.
    """
    key = native_key(choice)
    if key is None:
        return SWITCHED_OFF
    elections = sender.offers(ANY_BROKER, ELECT_LEADERS, deadline)
    designates = elections is not None and elections[1] >= DESIGNATED_SINCE
    if sender.offers(ANY_BROKER, key, deadline) is None:
        return NativeRpc(None, designates, f"the brokers do not advertise api key {key}")
    if choice == AUTO and not designates:
        return NativeRpc(None, False, f"api key {key} is advertised without ElectLeaders v3")
    probed = next(_answers(sender, key, {topic_id: [partition]}, deadline), None)
    if probed is None:
        return NativeRpc(None, designates, f"api key {key} answers in no known form")
    messages, answer = probed
    if any(
        one.error_code in AUTHORIZATION_CODES
        for topic in answer.topic_partition_log_info_list
        for one in topic.partition_log_info
    ):
        # Designated elections also need CLUSTER_ACTION; stock Kafka's elections need ALTER.
        return NativeRpc(None, False, NOT_ALLOWED)
    return NativeRpc(messages, designates, f"GetReplicaLogInfo ({messages.form}) answers")


def log_info_on(
    sender: Sender, broker: int, native: NativeRpc, deadline: Deadline
) -> ReplicaLogInfoMessages | None:
    """How *broker* itself is asked; None: by ListOffsets.

    During a rolling upgrade a broker may lack what the bootstrap broker offers.

    Raises Unreachable: the broker does not answer.
    """
    messages = native.log_info
    if messages is None or sender.offers(broker, messages.api_key, deadline) is None:
        return None
    if native.designates:
        elections = sender.offers(broker, ELECT_LEADERS, deadline)
        if elections is None or elections[1] < DESIGNATED_SINCE:
            return None
    return messages


def _answers(
    sender: Sender, key: int, question: dict[UUID, list[int]], deadline: Deadline
) -> Iterator[tuple[ReplicaLogInfoMessages, Any]]:
    """The answer to *question* in each form that the broker understands."""
    from breakglass.services.kafka.wire.messages.kip1275 import LogInfoSchema, replica_log_info

    for form in LogInfoSchema:
        messages = replica_log_info(form, key)
        request = messages.request(question)
        try:
            answer = sender.call(
                ANY_BROKER,
                request,
                messages.response_class,
                deadline.sooner(patience.LOOK),
                lane="probe",
            )
        except BreakglassError:
            # Bytes of another form, or a broker that hangs up on what it cannot parse.
            continue
        yield messages, answer
