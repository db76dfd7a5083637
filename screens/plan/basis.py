"""What the cluster said of a plan's partitions when it was made or checked, to see it change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from breakglass.services.model import Unknown

if TYPE_CHECKING:
    from breakglass.services.incident.incident import Incident
    from breakglass.services.incident.row import IncidentRow
    from breakglass.services.model import TopicPartition


class Basis:
    """The essence of each partition's row; None for one that was not read."""

    def __init__(self, incident: Incident, partitions: Iterable[TopicPartition]) -> None:
        self._essences = {partition: _essence(incident.row(partition)) for partition in partitions}
        self._rows: object = incident.rows
        """Those that were looked at last: the very same ones need no second look."""
        self._outdated = False

    def outdated_by(self, incident: Incident) -> bool:
        """Whether *incident* says something else of one of the partitions."""
        if incident.rows is not self._rows:
            self._rows, self._outdated = incident.rows, self._differs(incident)
        return self._outdated

    def _differs(self, incident: Incident) -> bool:
        for partition, then in self._essences.items():
            now = _essence(incident.row(partition))
            if now is not None and now != then:
                return True
        return False


def _essence(row: IncidentRow | None) -> object:
    """What a plan rests on, as far as a list tells it; None: it was not read yet."""
    if row is None:
        return "has a leader"
    if row.judged is None:
        return None
    state = row.state
    figures = (row.loss, row.log_end, row.epoch, row.unread_at_least)
    return (
        state.topic_id,
        state.leader_epoch,
        state.assignment,
        row.verdict,
        row.designee,
        tuple(["?" if isinstance(figure, Unknown) else figure for figure in figures]),
    )
