"""What the first line of every screen commands, and the keys that do it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from breakglass.services.recovery.judgement.starting import rescue_before

COMMAND = re.compile(rf"\b([Rr])un {re.escape(rescue_before(0))[:-1]}(\d+)")


def asked_in(sentence: str) -> int | None:
    """The broker before whose return *sentence* has records saved; None: before no one's."""
    found = COMMAND.search(sentence)
    return None if found is None else int(found[2])


def with_keys(sentence: str) -> str:
    """*sentence* as it is said where keys do what it commands."""

    def pressed(found: re.Match[str]) -> str:
        press = "Press" if found[1] == "R" else "press"
        return f"{press} W to save what b{found[2]} lacks"

    return COMMAND.sub(pressed, sentence)


def command_for(broker: int, connection_words: Sequence[str]) -> str:
    """The command, for another terminal."""
    return f"{rescue_before(broker)} {shlex.join(connection_words)}".rstrip()
