"""Asks every broker at once for a sign of life and its log directories, within one deadline."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.cluster.broker_log_dirs import BrokerLogDir, read_broker_log_dirs
from breakglass.services.kafka.wire.broker_errors import unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import Unknown

LANE = "health"
"""A connection of its own: evidence that takes a broker long is no silence."""

AT_ONCE = 64
"""Brokers asked at the same time; those that are silent hold one thread each."""


@dataclass(frozen=True, slots=True)
class LogDirsAnswer:
    """What came of asking one broker."""

    log_dirs: tuple[BrokerLogDir, ...] | Unknown
    why_silent: str = ""
    """``connection refused``; empty when it answered, be it that we may not know."""


def ask_brokers(
    sender: Sender, brokers: Collection[int], deadline: Deadline
) -> dict[int, LogDirsAnswer]:
    """The answer of each of *brokers*; never raises for a broker."""
    if not brokers:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(brokers)), "health") as asking:
        asked = {one: asking.submit(_ask, sender, one, deadline) for one in brokers}
        return {one: answer.result() for one, answer in asked.items()}


def _ask(sender: Sender, broker: int, deadline: Deadline) -> LogDirsAnswer:
    try:
        return LogDirsAnswer(read_broker_log_dirs(sender, broker, deadline, LANE))
    except Unreachable as error:
        return LogDirsAnswer(Unknown(f"b{broker} does not answer ({error.reason})"), error.reason)
    except BreakglassError as error:
        return LogDirsAnswer(unread(error))
