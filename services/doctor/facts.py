"""What `breakglass doctor` found, before anything is concluded from it. Frozen, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.recovery.judgement.starting import PassedOver

NOT_ASKED = Unknown("the controller was not asked")


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """The terminal of this process, by its environment."""

    name: str
    """The value of TERM; empty where it is not set."""
    interactive: bool
    """Whether stdin and stdout are a terminal."""
    size: tuple[int, int]
    """Columns and rows."""
    ascii_only: bool
    colors: str


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What this machine has."""

    version: str
    """The release of Breakglass."""
    python: str
    terminal: TerminalFacts
    encoding: str
    """How text is written to files and terminals."""
    locale_problem: str
    """Why the locale of the environment cannot be used; empty if it can."""
    missing: Mapping[str, tuple[str, ...]]
    """By extra: the packages that are not installed; extras that are whole are left out."""
    java: str | Unknown
    """The Java that Spark would run on."""
    rescue_folder: str
    free_bytes: int | Unknown
    """Free where rescues and journals are written."""
    writable: bool | Unknown
    """Whether that folder, or its nearest parent that is there, may be written to."""


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """How one broker answered."""

    id: int
    address: str
    """Where it was asked."""
    fenced: bool | Unknown
    trouble: str
    """Why it does not answer Breakglass's own client; empty if it does."""
    lacks: tuple[int, ...] = ()
    """Api keys of reads that it does not offer."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """How a cluster answered each client, and what it lets this user do."""

    servers: str
    """The bootstrap servers."""
    trouble: str = ""
    """Why the cluster could not be reached at all; empty if it was."""
    cluster_id: str = ""
    names_fenced: bool = False
    """Whether the cluster is of Kafka 4.0 or newer."""
    brokers: tuple[BrokerFacts, ...] = ()
    librdkafka: Mapping[int, str] | Unknown = field(default_factory=dict)
    """By broker: why it does not answer librdkafka; empty if it does."""
    cluster_rights: frozenset[str] | Unknown = frozenset()
    """What this user may do on CLUSTER: ``DESCRIBE``, ``ALTER``."""
    topic_rights: Mapping[str, frozenset[str]] | Unknown = field(default_factory=dict)
    """The same of each topic that this user may see."""
    ahead_ms: int | Unknown = NOT_ASKED
    """How far this machine's clock is ahead of the clock of the quorum's leader."""
    passed_over: tuple[PassedOver, ...] | Unknown = ()
    """Brokers that elections passed over, by the journals of this account."""
    asked_with_addresses: bool = False
    """Whether brokers are reached at addresses that the operator gave in place of their own."""
