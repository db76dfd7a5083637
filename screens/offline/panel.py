"""What stands below the list, or beside it: the partition under the cursor, replica by replica."""

from __future__ import annotations

from breakglass.screens.widgets.replica_table import Line, TablePiece, partition_lines, reason_lines
from breakglass.services.incident import cells
from breakglass.services.incident.cells import Listed
from breakglass.services.incident.groups import PartitionGroup
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import IncidentRow
from breakglass.themes.roles import Role


def panel_lines(incident: Incident, line: Listed | None, width: int) -> list[Line]:
    """About a line of the list, in *width* cells."""
    if line is None:
        return []
    if isinstance(line, PartitionGroup):
        return [_group(line), *_partition(incident, line.rows[0], width)]
    return _partition(incident, line, width)


def _group(group: PartitionGroup) -> Line:
    listed = TablePiece("  Enter lists them; the first is", Role.MUTED)
    return (
        TablePiece(f" {cells.name_text(group)}", Role.HEADING),
        TablePiece(f"  {_whole(group)}"),
        listed,
    )


def _whole(group: PartitionGroup) -> str:
    told = [f"loses {cells.loses_text(group)}", f"unread {cells.unread_text(group)}"]
    if group.verdict is None:
        return "not read yet"
    return ", ".join([f"best {cells.best_text(group)}", *told])


def _partition(incident: Incident, row: IncidentRow, width: int) -> list[Line]:
    assessment = incident.assessment(row.partition)
    if assessment is not None:
        return partition_lines(assessment, width)
    state = row.state
    about = (
        f"leader epoch {state.leader_epoch}, assignment {','.join(map(str, state.assignment))}: "
        "its replicas have not been read yet"
    )
    return [(TablePiece(f" {row.partition}", Role.HEADING),), *reason_lines([about], width)]
