"""Each broker as the controller tells it and as it answers itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from breakglass.services.health.counts import BrokerCounts
from breakglass.services.health.figure import Figure
from breakglass.services.model import Broker, ClusterSnapshot, Unknown

if TYPE_CHECKING:
    from breakglass.services.kafka.cluster.broker_log_dirs import BrokerLogDir

LogDirs: TypeAlias = "Figure[tuple[BrokerLogDir, ...]]"
NOTHING = BrokerCounts(0, 0, 0)
NOT_ASKED = Unknown("it was not asked yet")
NO_LOG_DIRS: LogDirs = Figure(NOT_ASKED, 0)


@dataclass(frozen=True, slots=True)
class Voice:
    """What we heard of a broker ourselves."""

    why_silent: str | Unknown = NOT_ASKED
    """``connection refused``; empty while it answers."""
    asked_at_ms: int = 0
    log_dirs: LogDirs = NO_LOG_DIRS

    @property
    def silent(self) -> bool:
        """Asked, and without an answer."""
        return isinstance(self.why_silent, str) and self.why_silent != ""


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """One broker."""

    id: int
    registration: Broker | None
    """None: replicas are assigned to it, and the cluster does not know it (R12)."""
    voice: Voice
    """Its own; the controller's view (*fenced*) may differ (R16)."""
    held: BrokerCounts

    @property
    def fenced(self) -> bool | Unknown:
        if self.registration is None:
            return Unknown(f"b{self.id} is not registered")
        return self.registration.fenced

    @property
    def offline_dirs(self) -> int | Unknown:
        """How many log directories it has taken offline."""
        dirs = self.voice.log_dirs.value
        return dirs if isinstance(dirs, Unknown) else sum(not one.online for one in dirs)

    @property
    def sound(self) -> bool:
        """Registered, unfenced, answering, every directory online: as far as is known."""
        dirs = self.offline_dirs
        broken = isinstance(dirs, int) and dirs > 0
        here = self.registration is not None and self.fenced is not True
        return here and not self.voice.silent and not broken


def brokers_of(
    snapshot: ClusterSnapshot, held: Mapping[int, BrokerCounts], voices: Mapping[int, Voice]
) -> tuple[BrokerHealth, ...]:
    """The brokers that *snapshot* lists, and those that *held* knows without their being listed."""
    listed = {one.id: one for one in snapshot.brokers}
    return tuple(
        BrokerHealth(one, listed.get(one), voices.get(one, Voice()), held.get(one, NOTHING))
        for one in sorted({*listed, *held})
    )
