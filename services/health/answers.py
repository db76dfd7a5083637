"""Asks every broker at once for a sign of life and its log directories, within one deadline."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from breakglass.services.errors import BreakglassError, Unreachable
from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir, read_broker_log_dirs
from breakglass.services.kafka.wire.answers import unread
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import Unknown

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
