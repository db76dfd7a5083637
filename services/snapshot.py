"""The cluster at one moment: its brokers, its controller quorum, its partitions. Frozen."""

from __future__ import annotations

from dataclasses import dataclass, field

from breakglass.services.model import PartitionState, TopicSettings, Unknown

FENCED_UNREAD = Unknown("this cluster does not say which brokers are fenced")
SILENT_MS = 10_000
"""A voter that has not fetched for so long is missing: a running one fetches every second."""
SILENCE_UNREAD = Unknown("this cluster does not say when voters fetched")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the cluster describes it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool | Unknown = FENCED_UNREAD


@dataclass(frozen=True, slots=True)
class Voter:
    """A KRaft quorum member."""

    id: int
    log_end_offset: int | Unknown
    lag: int | Unknown
    """Records behind the quorum leader."""
    silent_ms: int | Unknown = SILENCE_UNREAD
    """How long ago it fetched from the quorum leader, by that leader's clock (KIP-836)."""

    @property
    def fetches(self) -> bool:
        """Whether it follows the leader, or leads, as far as is known."""
        return isinstance(self.silent_ms, int) and self.silent_ms <= SILENT_MS


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controller quorum (DescribeQuorum)."""

    leader: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[Voter, ...]


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of a cluster, as DescribeCluster reports them."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    names_fenced: bool
    """Fenced brokers are listed too (version 2, Kafka 4.0); before, they were left out."""

    @property
    def live(self) -> tuple[int, ...]:
        """The ids of all brokers but those that are fenced."""
        return tuple([broker.id for broker in self.brokers if broker.fenced is not True])

    def fenced(self, broker: int) -> bool | Unknown:
        """Whether *broker* is fenced; a broker left out by an old cluster is taken as fenced."""
        for listed in self.brokers:
            if listed.id == broker:
                return listed.fenced
        return Unknown(f"b{broker} is not registered") if self.names_fenced else True

    def unregistered(self, assignment: tuple[int, ...]) -> tuple[int, ...]:
        """Brokers of *assignment* that the cluster does not know (R12).

        Always empty before Kafka 4.0, which does not distinguish fenced from unregistered.
        """
        if not self.names_fenced:
            return ()
        registered = {broker.id for broker in self.brokers}
        return tuple(broker for broker in assignment if broker not in registered)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster at one moment, as its brokers describe it."""

    description: ClusterDescription
    quorum: Quorum | Unknown
    partitions: tuple[PartitionState, ...]
    observed_at_ms: int
    settings: dict[str, TopicSettings] = field(default_factory=dict)
    """By topic."""

    @property
    def cluster_id(self) -> str:
        return self.description.cluster_id

    @property
    def brokers(self) -> tuple[Broker, ...]:
        return self.description.brokers

    @property
    def live(self) -> tuple[int, ...]:
        """The ids of all brokers but those that are fenced."""
        return self.description.live

    @property
    def offline(self) -> tuple[PartitionState, ...]:
        return tuple([state for state in self.partitions if state.leader is None])

    def led_without(self, broker: int) -> int:
        """How many partitions have a leader, and *broker* assigned and out of sync."""
        return sum(
            [
                state.leader is not None and broker in state.assignment and broker not in state.isr
                for state in self.partitions
            ]
        )

    def broker(self, broker_id: int) -> Broker | None:
        """The broker of that id, if it is listed."""
        return next((broker for broker in self.brokers if broker.id == broker_id), None)
