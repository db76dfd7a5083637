"""The pages of guarded acts, but for elections: what each is called, and what it says of itself.

Who opens one hands in the act: only what is opened is imported.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from breakglass.screens.context import Context
from breakglass.screens.guard.page import ActPage


class GroupsPage(ActPage):
    """Groups past the end of a log, or past a cut, are moved to where what they read ends."""

    TITLE = "Groups past the end"
    ABOUT = (
        "Sets committed offsets past the end of their log, or past a cut, to where the log that "
        "the group has read ends, as `breakglass after groups reset` does. Groups with running "
        "consumers are refused. The journal keeps what was committed before."
    )
    UNSAVED = "Offsets of groups are being moved."
    CHANGES = "groups"


class AddReplicasPage(ActPage):
    """Partitions with too few replicas in sync get further ones, so that all becomes readable."""

    TITLE = "Add replicas"
    ABOUT = (
        "Adds a replica on a live broker to partitions with fewer than min.insync.replicas in "
        "sync, as `breakglass after add-replica` does: the rest of their records becomes "
        "readable once it has copied the log. No replica is taken from an assignment."
    )
    UNSAVED = "Replicas are being added."


class SettingPage(ActPage):
    """What the pages of topic settings have in common."""

    UNSAVED = "A topic's setting is being changed."


class HoldPage(SettingPage):
    """Unclean election goes off, until it is released."""

    TITLE = "Freeze"
    ABOUT = (
        "Keeps the controller from electing by order while you look: it sets "
        "unclean.leader.election.enable to false on topics with offline partitions where it is "
        "true. What was there comes back by r in the Journal, or by `breakglass recover thaw`."
    )


class ForgetPage(SettingPage):
    """The controller forgets who led last."""

    TITLE = "Forget last leaders"
    ABOUT = (
        "For a BOMB whose broker you cannot stop. Changes min.insync.replicas of the topic for a "
        "moment, which makes the controller forget whom it would elect by itself, intact leaders "
        "too, and for good. Each of those is named in a phrase of its own."
    )


class ReleasePage(SettingPage):
    """What a journal changed is put back."""

    TITLE = "Put settings back"
    ABOUT = (
        "Gives topics what they had before this journal changed it, where nobody has set it since. "
        "Partitions that are still offline may then be elected by order: who would lead them, and "
        "what that loses, is part of the phrase."
    )

    def __init__(self, context: Context, journal: Path) -> None:
        from breakglass.services.recovery.acts.topic_settings import PutSettingsBack

        super().__init__(context, PutSettingsBack(journal))


class CheckpointPage(ActPage):
    """What the pages of checkpoints have in common."""

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


class DeletePage(CheckpointPage):
    """One checkpoint goes."""

    TITLE = "Delete a checkpoint"
    ABOUT = (
        "Deletes a checkpoint and all its copies; this cannot be undone. Its id is never used "
        "again. The cluster is not touched."
    )


class RestorePage(CheckpointPage):
    """One checkpoint into new or empty topics."""

    TITLE = "Restore a checkpoint"
    ABOUT = (
        "Restores every partition of one checkpoint, with the records in transit, into new or "
        "empty topics, and commits the groups' offsets there. The groups must have no members. "
        "Every byte is checked before you are asked to consent, and again before anything is "
        "written."
    )


class RestoreMetastorePage(ActPage):
    """A command topic; leaving it before consent changes nothing."""

    TITLE = "Restore metastore"
    ABOUT = (
        "Deletes the command topic and creates it again from its backup, with every command at "
        "its old offset. The current topic is backed up first. Type the phrase to confirm; "
        "everything is read again before anything is deleted."
    )
    UNSAVED = "A restore is under way."
    CHANGES = "topic"

    def __init__(self, context: Context, service_id: str, file: Path) -> None:
        from breakglass.services.metastore.acts.command_topic import SNAPSHOTS, RestoreCommandTopic
        from breakglass.services.metastore.restore.plan import Skips, read_source
        from breakglass.services.metastore.settings import MetastoreSettings

        source, settings = partial(read_source, file, Skips()), MetastoreSettings(service_id)
        act = RestoreCommandTopic(source, settings, file.parent / SNAPSHOTS)
        super().__init__(context, act)
