"""Each broker as the controller reports it and as it answers itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from breakglass.services.health.counts import BrokerCounts
from breakglass.services.health.figure import Figure
from breakglass.services.model import Unknown
from breakglass.services.snapshot import Broker, ClusterSnapshot

if TYPE_CHECKING:
    from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir

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
