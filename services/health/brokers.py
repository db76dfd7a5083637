"""Each broker as the controller reports it and as it answers itself: all are asked at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.health.counts import BrokerCounts
from breakglass.services.health.figure import Figure
from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir, read_broker_log_dirs
from breakglass.services.kafka.wire.answers import unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import Unknown
from breakglass.services.snapshot import Broker, ClusterSnapshot

if TYPE_CHECKING:
    from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir

LANE = "health"
"""A connection of its own: a broker that is slow with evidence is not silent."""

AT_ONCE = 64
"""Brokers asked at the same time; a silent broker occupies a thread."""


@dataclass(frozen=True, slots=True)
class LogDirsAnswer:
    """The answer of a broker, or why it gave none."""

    log_dirs: tuple[BrokerLogDir, ...] | Unknown
    why_silent: str = ""
    """``connection refused``; empty when it answered, even with a refusal."""


def ask_brokers(
    sender: Sender, brokers: Collection[int], deadline: Deadline
) -> dict[int, LogDirsAnswer]:
    """The answer of each of *brokers*; never raises for a broker."""
    if not brokers:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(brokers)), "health") as asking:
        asked = {broker: asking.submit(_ask, sender, broker, deadline) for broker in brokers}
        return {broker: answer.result() for broker, answer in asked.items()}


def _ask(sender: Sender, broker: int, deadline: Deadline) -> LogDirsAnswer:
    try:
        return LogDirsAnswer(read_broker_log_dirs(sender, broker, deadline, LANE))
    except Unreachable as error:
        return LogDirsAnswer(Unknown(f"b{broker} does not answer ({error.reason})"), error.reason)
    except BreakglassError as error:
        return LogDirsAnswer(unread(error))


LogDirs: TypeAlias = "Figure[tuple[BrokerLogDir, ...]]"
NOTHING = BrokerCounts(0, 0, 0)
NOT_ASKED = Unknown("it was not asked yet")
NO_LOG_DIRS: LogDirs = Figure(NOT_ASKED, 0)


@dataclass(frozen=True, slots=True)
class Voice:
    """The answer of a broker to this process."""

    why_silent: str | Unknown = NOT_ASKED
    """``connection refused``; empty while it answers."""
    asked_at_ms: int = 0
    log_dirs: LogDirs = NO_LOG_DIRS

    @property
    def silent(self) -> bool:
        """The broker was asked and did not answer."""
        return isinstance(self.why_silent, str) and self.why_silent != ""


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The health of a broker."""

    id: int
    registration: Broker | None
    """None: replicas are assigned to it, and the cluster does not know it (R12)."""
    voice: Voice
    """The broker's own answer; the controller's view (*fenced*) may differ (R16)."""
    held: BrokerCounts

    @property
    def fenced(self) -> bool | Unknown:
        if self.registration is None:
            return Unknown(f"b{self.id} is not registered")
        return self.registration.fenced

    @property
    def offline_dirs(self) -> int | Unknown:
        """How many log directories the broker has taken offline."""
        dirs = self.voice.log_dirs.value
        return dirs if isinstance(dirs, Unknown) else sum(not log_dir.online for log_dir in dirs)

    @property
    def sound(self) -> bool:
        """Registered, unfenced, answering, every directory online: as far as is known."""
        dirs = self.offline_dirs
        broken = isinstance(dirs, int) and dirs > 0
        here = self.registration is not None and self.fenced is not True
        return here and not self.voice.silent and not broken


def brokers_of(
    snapshot: ClusterSnapshot, counts: Mapping[int, BrokerCounts], voices: Mapping[int, Voice]
) -> tuple[BrokerHealth, ...]:
    """The brokers that *snapshot* lists, and those of *counts* that are not listed."""
    listed = {broker.id: broker for broker in snapshot.brokers}
    return tuple(
        BrokerHealth(
            broker, listed.get(broker), voices.get(broker, Voice()), counts.get(broker, NOTHING)
        )
        for broker in sorted({*listed, *counts})
    )
