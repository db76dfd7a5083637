"""The plan, and pydantic with it, is imported when there is one and not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_screen_is_imported_without_the_plan() -> None:
    probe = "import breakglass.screens.plan, sys; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
