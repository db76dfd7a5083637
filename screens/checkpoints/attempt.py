"""The thread of a guarded act: freeze; after consent read again, carry out, and do what is left.

It never touches a widget. Whatever happens in it, the app hears that a mutation has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from screens.checkpoints.messages import ActEnded, ActFrozen, ActTold, FollowEnded
from screens.context import Context
from screens.messages import MutationEnded
from screens.unforeseen import of_step
from services.checkpoint.guarded.act import Act, Event, Frozen, TargetResult, changes, result_of
from services.errors import AlreadyRunning

if TYPE_CHECKING:
    from textual.message import Message

    from services.session import Power

GIVEN_UP = "Given up: nothing was done."
CHANGED = "checkpoint"
"""What an error that nobody expected says to look at."""


@dataclass
class ActAttempt:
    """One act and the screen that shows it."""

    context: Context
    act: Act
    post: Callable[[Message], object]
    """To the screen."""
    post_app: Callable[[Message], object]
    given_up: threading.Event = field(default_factory=threading.Event)
    """Begin nothing: the operator has left before anything was done."""

    def freeze(self) -> None:
        """Find out what would be done."""
        frozen = self._frozen()
        if frozen is not None:
            self._send(ActFrozen(frozen))

    def carry_out(self, power: Power, agreed: Frozen) -> None:
        """Read again what was *agreed* to, and do it if it is still so.

        The app was told that a mutation has begun.
        """
        try:
            done = self._carried_out(power, agreed)
        finally:
            self._post(self.post_app, MutationEnded())
        if done:
            self._follow(agreed)

    def _frozen(self) -> Frozen | None:
        """What would be done now; None, and the screen told why, where it cannot be."""
        try:
            with self.context.reading() as client:
                return self.act.freeze(client)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen tells it
            self._send(ActEnded(None, f"Nothing was done: {of_step(error, CHANGED)}"))
            return None

    def _carried_out(self, power: Power, agreed: Frozen) -> bool:
        fresh = self._frozen()
        if fresh is None:
            return False
        changed = changes(agreed, fresh)
        if self.given_up.is_set() or self.context.stopping.is_set():
            self._send(ActEnded(None, GIVEN_UP))
            return False
        if changed:
            self._send(ActFrozen(fresh, changed))
            return False
        return self._done(power, fresh)

    def _done(self, power: Power, fresh: Frozen) -> bool:
        try:
            told = self.act.carry_out(power, fresh, self._tell)
        except AlreadyRunning as error:
            self._send(ActEnded(None, f"Nothing was done: {error}"))
            return False
        except Exception as error:  # noqa: BLE001 -- as above
            found = of_step(error, CHANGED)
            self._send(ActEnded(result_of(found), str(found)))
            return False
        self._send(ActEnded(TargetResult.DONE, told))
        return True

    def _follow(self, agreed: Frozen) -> None:
        try:
            told = self.act.follow(agreed, self._tell)
        except Exception as error:  # noqa: BLE001 -- as above
            self._send(FollowEnded(str(of_step(error, CHANGED)), good=False))
        else:
            self._send(FollowEnded(told, good=True))

    def _tell(self, event: Event) -> None:
        self._send(ActTold(event))

    def _send(self, message: Message) -> None:
        self._post(self.post, message)

    def _post(self, post: Callable[[Message], object], message: Message) -> None:
        """Post *message*; once nobody is there any more, nothing new begins."""
        try:
            post(message)
        except RuntimeError:
            self.given_up.set()
