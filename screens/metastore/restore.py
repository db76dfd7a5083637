"""The guarded restore of a command topic on the screen."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from breakglass.screens.context import Context
from breakglass.screens.guard.page import ActPage
from breakglass.services.metastore.acts.restore import SNAPSHOTS, RestoreCommandTopic
from breakglass.services.metastore.restore.source import Skips, read_source
from breakglass.services.metastore.settings import MetastoreSettings


class RestoreScreen(ActPage):
    """One restore; only in armed sessions. Leaving it before consent changes nothing."""

    TITLE = "Restore metastore"
    ABOUT = (
        "Deletes the command topic and creates it again from its backup, with every command at "
        "its old offset. The present topic is backed up first. Type the phrase to confirm; "
        "everything is read again before anything is deleted."
    )
    UNSAVED = "A restore is under way."
    CHANGES = "topic"

    def __init__(self, context: Context, service_id: str, file: Path) -> None:
        act = RestoreCommandTopic(
            partial(read_source, file, Skips()),
            MetastoreSettings(service_id),
            file.parent / SNAPSHOTS,
        )
        super().__init__(context, act)
