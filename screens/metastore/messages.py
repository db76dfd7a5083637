"""What the Metastore screen is told by its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.metastore.looking import ServiceLook


@dataclass(eq=False)
class ServiceLooked(Message):
    """A ksqlDB service has been looked at, or the reason why not."""

    topic: str
    look: ServiceLook | Unknown
