"""The sentences above the table: the service, its backup, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from breakglass.screens.metastore.rows import MetastoreView
from breakglass.screens.widgets.facts import Fact
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.metastore.looking import ServiceLook
from breakglass.services.model import Unknown
from breakglass.themes.roles import Role


def service_facts(look: ServiceLook, view: MetastoreView, services: int) -> Iterator[Fact]:
    """What is known of the service, the worst first."""
    for alarm in look.alarms:
        yield Fact("ALARM", (LinePart(alarm, Role.FAILED),))
    if look.degraded is not None:
        yield Fact("Not read on", (LinePart(str(look.degraded), Role.FAILED),))
    held = look.metastore
    types, queries = len(held.types), len(held.queries)
    counted = (
        f"{len(held.sources):,} streams and tables, {types:,} type{'s' * (types != 1)}, "
        f"{queries:,} quer{'y' if queries == 1 else 'ies'}, {len(look.entries):,} commands"
    )
    more = f"  (1 of {services:,} services)" if services > 1 else ""
    yield Fact("Service", (LinePart(look.topic, Role.HEADING), LinePart(more, Role.MUTED)))
    yield Fact("Shown", (LinePart(f"{view.value}  ", Role.HEADING), LinePart(counted)))
    yield Fact("Backup", tuple(_backup(look)))


def _backup(look: ServiceLook) -> Iterator[LinePart]:
    backup = look.backup
    if isinstance(backup, Unknown):
        yield LinePart(backup.reason, Role.UNKNOWN)
        return
    counts = backup.counts
    yield LinePart(f"{len(backup.lines):,} lines  ")
    if counts.different:
        first = counts.first.number if counts.first is not None else 0
        yield LinePart(f"{counts.different:,} differ, the first at {first:,}  ", Role.DIVERGED)
    if counts.only_backup:
        yield LinePart(f"{counts.only_backup:,} are not in the topic  ", Role.LOST)
    if counts.only_topic:
        yield LinePart(f"{counts.only_topic:,} behind  ", Role.WAITING)
    if not (counts.different or counts.only_backup or counts.only_topic):
        yield LinePart("the same as the topic  ", Role.VERIFIED)
    yield LinePart(str(backup.file), Role.MUTED)


def restore_words(look: ServiceLook) -> str:
    """The command that puts the backup back; empty where there is none."""
    if isinstance(look.backup, Unknown):
        return ""
    return f"breakglass metastore restore --write --from '{look.backup.file}'"
