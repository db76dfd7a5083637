"""Plans of files, and with notes."""

from pathlib import Path

from breakglass.services.recovery.plan.document import Plan, parse_plan, rendered
from breakglass.services.recovery.plan.edit import notes_of, with_notes
from breakglass.services.recovery.plan.partition_file import read_text


def render_plan(plan: Plan) -> str:
    """*plan* as the whole text of its file."""
    return "".join(rendered(plan))


def read_plan(path: Path) -> Plan:
    """The plan in *path*. Raises as `parse_plan`, and StorageError."""
    return parse_plan(read_text(path), str(path))


def add_note(plan: Plan, note: str) -> Plan:
    """*plan* with one more note.

    Raises:
        UsageError: it is empty or too long, there are too many, or the plan is a bare one.
    """
    return with_notes(plan, (*notes_of(plan), note))
