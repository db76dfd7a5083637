"""The three guarded pages of checkpoints: take, delete, restore."""

from __future__ import annotations

from screens.checkpoints.guarded import ActPage
from screens.context import Context
from services.checkpoint.guarded.deleting import Deleting
from services.checkpoint.guarded.restoring import Restoring
from services.checkpoint.guarded.taking import Taking
from services.checkpoint.option_text import RestoreAsked, TakeAsked
from services.checkpoint.store.backup_store import BackupStore


class TakePage(ActPage):
    """The next checkpoint of a store."""

    TITLE = "Take a checkpoint"
    ABOUT = (
        "Takes a checkpoint; producers and consumers go on meanwhile. A coordinated one writes a "
        "small record, a marker, into every partition. Copying begins once it is acknowledged, "
        "and goes on when this page is left; it ends with the session."
    )

    def __init__(self, context: Context, url: str, asked: TakeAsked) -> None:
        store = BackupStore(url)
        super().__init__(context, Taking(store, asked, context.access, context.state_folder))


class DeletePage(ActPage):
    """One checkpoint goes."""

    TITLE = "Delete a checkpoint"
    ABOUT = (
        "Deletes a checkpoint with all its copies; nothing brings it back. Its id stays taken. "
        "The cluster is not touched."
    )

    def __init__(self, context: Context, url: str, id: int) -> None:
        super().__init__(context, Deleting(BackupStore(url), id, context.state_folder))


class RestorePage(ActPage):
    """One checkpoint into new or empty topics."""

    TITLE = "Restore a checkpoint"
    ABOUT = (
        "Restores every partition of one checkpoint into new or empty topics, with what was in "
        "transit, and gives the groups their offsets there. Members of the groups must not run. "
        "Every byte is read before anything is asked, and again before anything is written."
    )

    def __init__(self, context: Context, url: str, id: int, asked: RestoreAsked) -> None:
        act = Restoring(BackupStore(url), id, asked, context.access, context.state_folder)
        super().__init__(context, act)
