"""The names of command topics and of their backup files, in both styles there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

KLIP_END = ".bak"
SHIPPED_BEGIN = "backup_"


class Style(StrEnum):
    """How backup files are named."""

    KLIP = "klip"
    """``<topic>_<seconds>.bak``, as KLIP-31 has it."""
    SHIPPED = "shipped"
    """``backup_<topic>_<milliseconds>``, as ksqlDB writes it (CommandTopicBackupImpl)."""

    @property
    def unit_ms(self) -> int:
        """Milliseconds of one step of its number."""
        return 1000 if self is Style.KLIP else 1


def command_topic(service_id: str) -> str:
    """The command topic of a service (ReservedInternalTopics.toKsqlInternalTopic)."""
    return f"_confluent-ksql-{service_id}_command_topic"


def service_of(topic: str) -> str | None:
    """The service whose command topic this is; None where it is none."""
    inner = topic.removeprefix("_confluent-ksql-").removesuffix("_command_topic")
    return inner if command_topic(inner) == topic else None


@dataclass(frozen=True, slots=True, order=True)
class BackupName:
    """The name of a backup file; the newest is the greatest."""

    stamp_ms: int
    """When it was begun, as its name says."""
    style: Style
    topic: str

    def __str__(self) -> str:
        number = self.stamp_ms // self.style.unit_ms
        if self.style is Style.KLIP:
            return f"{self.topic}_{number}{KLIP_END}"
        return f"{SHIPPED_BEGIN}{self.topic}_{number}"


def parse_name(name: str, topic: str) -> BackupName | None:
    """What *name* says, if it is that of a backup of *topic* in either style."""
    for style, begin, end in (
        (Style.KLIP, f"{topic}_", KLIP_END),
        (Style.SHIPPED, f"{SHIPPED_BEGIN}{topic}_", ""),
    ):
        if not (name.startswith(begin) and name.endswith(end)):
            continue
        number = name[len(begin) : len(name) - len(end)]
        if number.isascii() and number.isdigit() and int(number) > 0:
            return BackupName(int(number) * style.unit_ms, style, topic)
    return None


def newest(names: Iterable[str], topic: str) -> BackupName | None:
    """The backup of *topic* that is continued: the one begun last."""
    return max(filter(None, (parse_name(name, topic) for name in names)), default=None)


def new_name(names: Iterable[str], topic: str, style: Style, now_ms: int) -> BackupName:
    """A name that no file has, and that is newer than every other: the next one continues it."""
    last = newest(names, topic)
    unit = style.unit_ms
    stamp = now_ms - now_ms % unit
    if last is not None and last.stamp_ms >= stamp:
        stamp = (last.stamp_ms // unit + 1) * unit
    return BackupName(stamp, style, topic)
