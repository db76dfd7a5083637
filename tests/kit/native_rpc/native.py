"""KIP-1275's RPCs as a proxy offers them before a broker that has none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from breakglass.services.lab.proxy.relay import Service

from breakglass.services.kafka.wire.messages.kip1275 import (
    DEFAULT_API_KEY,
    DESIGNATED_SINCE,
    MAX_PARTITIONS,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    LogInfoSchema,
    replica_log_info,
)
from breakglass.services.kafka.wire.passing import Head, answer_frame, request_body
from breakglass.services.lab.layout import Address
from breakglass.services.model import TopicPartition
from tests.kit.native_rpc.designation import (
    INVALID_REQUEST,
    Designation,
    DesignationResult,
    designations,
    elect_designated,
)
from tests.kit.native_rpc.log_info import (
    Asked,
    LogInfoReading,
    asked_partitions,
    log_info_answer,
    name_partitions,
    read_all,
)
from tests.kit.native_rpc.translator import Translator

ELECT_LEADERS = 43
TOPIC_AUTHORIZATION_FAILED = 29
CLUSTER_AUTHORIZATION_FAILED = 31
TRANSLATE_SECONDS = 60.0


@dataclass
class Native:
    """What the proxied broker pretends to be able to do; may be changed while it serves."""

    form: LogInfoSchema = LogInfoSchema.KIP
    api_key: int = DEFAULT_API_KEY
    elections: bool = True
    """Whether ElectLeaders is offered up to version 3."""
    broker: Address | None = None
    """A plaintext listener of the same broker for the translation, past TLS and SASL."""
    broker_epoch: int = 7
    limit: int = MAX_PARTITIONS
    """Partitions served of one request; the rest is left out."""
    throttle_ms: int = 0
    deny_cluster_action: bool = False
    """The client lacks CLUSTER_ACTION: every partition is refused."""
    deny_describe: set[str] = field(default_factory=set)
    """Topics on which the client lacks DESCRIBE."""
    errors: dict[TopicPartition, int] = field(default_factory=dict)
    """Error codes to answer for single partitions."""
    leave_out: set[TopicPartition] = field(default_factory=set)
    """Partitions to leave out of the next answer; each is left out once."""

    @property
    def offers(self) -> dict[int, tuple[int, int] | None]:
        """What ApiVersions says of it."""
        elections = {ELECT_LEADERS: (0, DESIGNATED_SINCE)} if self.elections else {}
        return {self.api_key: (0, 0), **elections}

    def services(self, upstream: Address, fail: Callable[[str], None]) -> Mapping[int, Service]:
        """Who answers which api key; *fail* is told what could not be translated."""
        served = _Services(self, self.broker or upstream, fail)
        elections = {ELECT_LEADERS: served.elect_leaders} if self.elections else {}
        return {self.api_key: served.log_info, **elections}


class _Services:
    """Serves single requests, each in a conversation of its own with the broker."""

    def __init__(self, native: Native, broker: Address, fail: Callable[[str], None]) -> None:
        self._native = native
        self._broker = broker
        self._fail = fail

    def log_info(self, head: Head, frame: bytes) -> bytes | None:
        """Answer GetReplicaLogInfo.

        Raises:
            MalformedMessage: the request is not of this form.
            Unreachable: the broker behind does not answer.
        """
        native = self._native
        messages = replica_log_info(native.form, native.api_key)
        request = request_body(messages.request_class, head.api_version, frame[head.end :])
        asked = asked_partitions(request)
        answer = log_info_answer(
            messages,
            self._readings(asked[: native.limit]),
            broker_epoch=native.broker_epoch,
            more=len(asked) > native.limit,
            throttle_ms=native.throttle_ms,
        )
        return answer_frame(head, answer)

    def elect_leaders(self, head: Head, frame: bytes) -> bytes | None:
        """Answer a version 3 election; older versions are the broker's.

        Raises:
            MalformedMessage: the request is none of ElectLeaders.
            Unreachable: the broker behind does not answer.
        """
        if head.api_version < DESIGNATED_SINCE:
            return None
        request = request_body(ElectLeadersRequest, head.api_version, frame[head.end :])
        return answer_frame(head, self._election(request))

    def _readings(self, asked: list[Asked]) -> dict[Asked, LogInfoReading]:
        if self._native.deny_cluster_action:
            return dict.fromkeys(asked, LogInfoReading(CLUSTER_AUTHORIZATION_FAILED))
        with self._translator() as translator:
            named = name_partitions(translator, asked)
            kept = [pair for pair in asked if not self._left_out(named.get(pair))]
            refused = self._refused(named[pair] for pair in kept if pair in named)
            return read_all(translator, kept, named, refused, self._native.form)

    def _left_out(self, partition: TopicPartition | None) -> bool:
        if partition not in self._native.leave_out:
            return False
        self._native.leave_out.discard(partition)
        return True

    def _refused(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        denied = self._native.deny_describe
        return {
            partition: TOPIC_AUTHORIZATION_FAILED
            if partition.topic in denied
            else self._native.errors[partition]
            for partition in partitions
            if partition.topic in denied or partition in self._native.errors
        }

    def _election(self, request: Any) -> Any:
        if not request.topic_partitions:
            return ElectLeadersResponse(error_code=INVALID_REQUEST)
        # Whether any leader is designated; the election type's number is still open.
        named = any(topic.designated_leaders for topic in request.topic_partitions)
        if not (named or bool(request.election_type == ElectionType.DESIGNATED)):
            with self._translator() as translator:
                return translator.ask(request, ElectLeadersResponse)
        wanted = list(designations(request))[: self._native.limit]
        if self._native.deny_cluster_action:
            denied = DesignationResult(CLUSTER_AUTHORIZATION_FAILED, "needs CLUSTER_ACTION")
            return _answer(
                {designation.partition: denied for designation in wanted},
                CLUSTER_AUTHORIZATION_FAILED,
            )
        return _answer(self._results(wanted))

    def _results(self, wanted: list[Designation]) -> dict[TopicPartition, DesignationResult]:
        errors = self._native.errors
        results = {
            designation.partition: DesignationResult(errors[designation.partition])
            for designation in wanted
            if designation.partition in errors
        }
        with self._translator() as translator:
            held = [designation for designation in wanted if designation.partition not in results]
            results.update(elect_designated(translator, held, self._fail))
        return {designation.partition: results[designation.partition] for designation in wanted}

    def _translator(self) -> Translator:
        return Translator(self._broker, TRANSLATE_SECONDS)


def _answer(results: Mapping[TopicPartition, DesignationResult], error_code: int = 0) -> Any:
    topic_class = ElectLeadersResponse.ReplicaElectionResult
    topics: dict[str, list[Any]] = {}
    for one, result in results.items():
        entry = topic_class.PartitionResult(
            partition_id=one.partition, error_code=result.error_code, error_message=result.message
        )
        topics.setdefault(one.topic, []).append(entry)
    return ElectLeadersResponse(
        error_code=error_code,
        replica_election_results=[
            topic_class(topic=topic, partition_result=entries) for topic, entries in topics.items()
        ],
    )
