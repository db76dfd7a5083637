"""Asks the brokers about themselves for the overview, over connections that are kept."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from breakglass.services import patience
from breakglass.services.kafka.wire.deadline import Deadline

if TYPE_CHECKING:
    from breakglass.screens.context import Context
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.snapshot import Broker


class Asking:
    """For one thread at a time; the session's end closes what it opened (`Context.close`)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stack = ExitStack()
        self._client: ReadClient | None = None
        self._reached: tuple[Broker, ...] = ()
        """Whose addresses the client knows."""

    def ask(self, brokers: tuple[Broker, ...]) -> None:
        """Refresh the context's health from *brokers*, which are those of the last snapshot.

        Raises:
            BreakglassError: nobody could be asked.
        """
        if self._client is None:
            self._client = self._stack.enter_context(self._context.reading())
        if brokers != self._reached:
            self._client.describe(Deadline.after(patience.LOOK))
            self._reached = brokers
        self._context.health.ask(self._client)
