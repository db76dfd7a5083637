"""The state folder of a lab: cleared for a new one, removed at the end, never beyond its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import LAYOUT_FILE, TRUTH_FILE, ClusterLayout, load_layout
from breakglass.services.lab.process import any_recorded
from breakglass.services.lab.security import security_folder


def clear_state(state_dir: Path) -> None:
    """Remove what an earlier lab left in *state_dir*; what is not the lab's own stays.

    Raises:
        LabError: processes of that lab run.
    """
    if not (state_dir / LAYOUT_FILE).exists():
        return
    old = load_layout(state_dir)
    if any_recorded(node.folder for node in old.nodes):
        raise LabError(f"A lab runs in {state_dir}: end it by `lab down` or name another folder.")
    remove_state(old)


def remove_state(layout: ClusterLayout) -> None:
    """Remove what the lab made, and the folder when nothing else is in it."""
    for folder in (*[node.folder for node in layout.nodes], security_folder(layout)):
        shutil.rmtree(folder, ignore_errors=True)
    for name in (TRUTH_FILE, LAYOUT_FILE):
        (layout.state_dir / name).unlink(missing_ok=True)
    if layout.state_dir.exists() and not any(layout.state_dir.iterdir()):
        layout.state_dir.rmdir()
