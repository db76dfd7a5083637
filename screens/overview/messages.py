"""What the threads of the overview report to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.model import PartitionState


@dataclass(eq=False)
class BrokersAsked(Message):
    """The brokers were asked about themselves, for the overview."""

    trouble: str = ""
    """Why they could not be; empty when they were."""


@dataclass(eq=False)
class BrokerSettingsRead(Message):
    """A broker has reported its settings, or the reason why not."""

    settings: Mapping[str, str | None] | Unknown


@dataclass(eq=False)
class TroubledFound(Message):
    """The partitions in one kind of trouble have been looked up."""

    partitions: Sequence[PartitionState]
