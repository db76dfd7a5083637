"""The guarded pages of topic settings: hold, make the controller forget, put back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from breakglass.screens.context import Context
from breakglass.screens.guard.page import ActPage
from breakglass.services.recovery.acts.forget_leaders import ForgetLeaders
from breakglass.services.recovery.acts.hold import HoldElections
from breakglass.services.recovery.acts.put_back import PutSettingsBack


class SettingPage(ActPage):
    """What the three have in common."""

    UNSAVED = "A topic's setting is being changed."


class HoldPage(SettingPage):
    """Unclean election goes off, until it is released."""

    TITLE = "Hold"
    ABOUT = (
        "Keeps the controller from electing by order while you look: it sets "
        "unclean.leader.election.enable to false on topics with offline partitions where it is "
        "true. What was there comes back by r in the Journal, or by `breakglass hold --release`."
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context, HoldElections())


class ForgetPage(SettingPage):
    """The controller forgets who led last."""

    TITLE = "Forget last leaders"
    ABOUT = (
        "For a BOMB whose broker nobody can stop. Changes min.insync.replicas of the topic for a "
        "moment, which makes the controller forget whom it would elect by itself, intact leaders "
        "too, and for good. Each of those is named in a phrase of its own."
    )

    def __init__(self, context: Context, topics: Sequence[str]) -> None:
        gone = tuple(sorted(context.watch.gone))
        super().__init__(context, ForgetLeaders(tuple(topics), gone))


class ReleasePage(SettingPage):
    """What a journal changed is put back."""

    TITLE = "Put settings back"
    ABOUT = (
        "Gives topics what they had before this journal changed it, where nobody has set it since. "
        "Partitions that are still offline may then be elected by order: who would lead them, and "
        "what that loses, is part of the phrase."
    )

    def __init__(self, context: Context, journal: Path) -> None:
        super().__init__(context, PutSettingsBack(journal))
