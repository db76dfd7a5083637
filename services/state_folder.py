"""Where a user's journals, rescues and locks are."""

from __future__ import annotations

from pathlib import Path


def state_folder() -> Path:
    """The user's state folder."""
    import platformdirs

    return platformdirs.user_state_path("breakglass")
