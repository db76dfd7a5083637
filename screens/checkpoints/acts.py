"""The three guarded pages of checkpoints: take, delete, restore."""

from __future__ import annotations

from breakglass.screens.context import Context
from breakglass.screens.guard.page import ActPage
from breakglass.services.checkpoint.acts.delete import DeleteCheckpoint
from breakglass.services.checkpoint.acts.restore import RestoreCheckpoint
from breakglass.services.checkpoint.acts.take import TakeCheckpoint
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.wording import RestoreAsked


class CheckpointPage(ActPage):
    """What the three have in common."""

    UNSAVED = "A checkpoint is being changed."
    CHANGES = "checkpoint"


class TakePage(CheckpointPage):
    """The next checkpoint of a store."""

    TITLE = "Take a checkpoint"
    ABOUT = (
        "Takes a checkpoint; producers and consumers keep running. A coordinated checkpoint "
        "writes a small record, a marker, into every partition. Copying starts once the "
        "checkpoint is acknowledged; it continues when you leave this page and stops when the "
        "session ends."
    )

    def __init__(self, context: Context, url: str, wanted: WantedCheckpoint) -> None:
        super().__init__(context, TakeCheckpoint(BackupStore(url), wanted))


class DeletePage(CheckpointPage):
    """One checkpoint goes."""

    TITLE = "Delete a checkpoint"
    ABOUT = (
        "Deletes a checkpoint and all its copies; this cannot be undone. Its id is never used "
        "again. The cluster is not touched."
    )

    def __init__(self, context: Context, url: str, id: int) -> None:
        super().__init__(context, DeleteCheckpoint(BackupStore(url), id))


class RestorePage(CheckpointPage):
    """One checkpoint into new or empty topics."""

    TITLE = "Restore a checkpoint"
    ABOUT = (
        "Restores every partition of one checkpoint, with the records in transit, into new or "
        "empty topics, and commits the groups' offsets there. The groups must have no members. "
        "Every byte is checked before you are asked to consent, and again before anything is "
        "written."
    )

    def __init__(self, context: Context, url: str, id: int, asked: RestoreAsked) -> None:
        super().__init__(context, RestoreCheckpoint(BackupStore(url), id, asked))
