"""Messages for the whole console: the cluster was read, a screen is asked for, something changes.

A thread never touches a widget: it posts a message, and a handler in the app or on a screen
changes what is shown. Messages for one screen alone are in its own folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from breakglass.services.errors import BreakglassError
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from breakglass.services.divergence.address import SourceAddress
    from breakglass.services.incident.elections_seen import Observation
    from breakglass.services.incident.incident import Incident
    from breakglass.services.recovery.plan.document import Plan
    from breakglass.services.recovery.timeline.account import Brief


@dataclass(eq=False)
class ClusterRead(Message):
    """A refresh has reported evidence: some of it, or all."""

    generation: int
    incident: Incident


@dataclass(eq=False)
class ReadFailed(Message):
    """A refresh ended with an error: the last truth stands."""

    generation: int
    error: BreakglassError


class ReadEnded(Message):
    """The thread of a refresh is done, whatever it reported."""


class Seen(Message):
    """For the screens: what is known of the cluster has changed."""


class RefreshAsked(Message):
    """The operator wants everything read again now."""


@dataclass(eq=False)
class GoneDeclared(Message):
    """The operator says whose disks are lost: nothing is waited for from *brokers*."""

    brokers: Sequence[int]


@dataclass(eq=False)
class IntervalChanged(Message):
    """The operator wants refreshes further apart or closer."""

    seconds: float


class MutationBegan(Message):
    """Something is being changed: no refresh, no stop by Ctrl+Z, no quitting at once."""


class MutationEnded(Message):
    """Nothing is being changed any more."""


@dataclass(eq=False)
class Interrupted(Message):
    """SIGTERM or SIGHUP: finish what is under way, begin nothing, end."""

    exit_code: int


@dataclass(eq=False)
class Acknowledged(Message):
    """The operator has taken note of what was seen: *observations* are all there are."""

    observations: Sequence[Observation]


@dataclass(eq=False)
class OfflineAsked(Message):
    """Show the offline partitions that *wanted* keeps, in the language of the filter."""

    wanted: str = ""


@dataclass(eq=False)
class PlanAsked(Message):
    """Make a plan of *partitions*, or of all that are offline."""

    partitions: Sequence[TopicPartition] = ()


@dataclass(eq=False)
class ElectionAsked(Message):
    """Begin the guarded steps for *partitions* (each its recommended replica), or for a *plan*."""

    partitions: Sequence[TopicPartition] = ()
    plan: Plan | None = None


@dataclass(eq=False)
class DiffAsked(Message):
    """Compare what two brokers hold of *partition*; the screen chooses where they are None."""

    partition: TopicPartition
    left: int | None = None
    right: int | None = None


@dataclass(eq=False)
class ResumeAsked(Message):
    """Take up an unfinished journal again."""

    journal: Path
    settings: bool = False
    """It holds no election, but topic settings to be put back."""


@dataclass(eq=False)
class CopyAsked(Message):
    """Send *text* to the terminal's clipboard."""

    text: str
    what: str
    """Named in the notice: ``timeline of 12 elections``."""


@dataclass(eq=False)
class BrowseAsked(Message):
    """Show the records at *left*, beside those at *right* if there are two addresses."""

    left: SourceAddress
    right: SourceAddress | None = None
    _: KW_ONLY
    offset: int | None = None
    """Where to begin; None: at the start."""


@dataclass(eq=False)
class UnfinishedFound(Message):
    """Journals of this cluster that neither run nor came to their end, newest first."""

    briefs: Sequence[Brief]
