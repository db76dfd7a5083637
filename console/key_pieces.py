"""Keys that arrive in pieces over a slow link: an arrow is one key or none, never its letters.

A terminal sends Down as Esc, `[`, `B`. Esc alone is a key; if the others come later, they would be
typed into a phrase, or be commands: after Esc they are swallowed for a second. What begins with
Esc and `[` together is waited for as long, for no one key is sent so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

ESC = "\x1b"
ESCAPE_SECONDS = 0.1
"""Esc that nothing has followed for so long is a key."""
PIECES_SECONDS = 1.0
"""The rest of a key may come so late."""
LONGEST = 64
LONGEST_PASTE = 4096
"""More is dropped: what is pasted goes into a field of one line, or is refused."""
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
LAST_LETTERS = frozenset("ABCDEFHMPQRS")
"""What follows Esc and `O` in keys that Kafka's operators have."""


BEGINNINGS = frozenset(("\x1b[", "\x1bO", "\x1b[["))
"""Of arrows, of function keys; of function keys on Linux's own terminal."""


def _is_inner(character: str, so_far: str) -> bool:
    """Whether after *character* more of the key is to come."""
    return " " <= character <= "?" and len(so_far) < LONGEST


def _whole_paste(text: str) -> str:
    """*text* with its end and without Esc, which would end it for the parser of keys."""
    return text.removesuffix(PASTE_ENDS).replace(ESC, "") + PASTE_ENDS


class KeyPieces:
    """Takes characters as they come, and hands on whole keys; for one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = ""
        """From Esc on, a key that is not whole yet."""
        self._at = 0.0
        """When that began, or when the last character of pieces came."""
        self._loose: str | None = None
        """After Esc alone: what came of the rest of a key; None: nothing is swallowed."""
        self._pasted: str | None = None
        """What is being pasted; None: nothing is. It is handed on as a whole, with its end: an Esc
        in it is no key, and the parser of keys has to see where it ends."""

    def feed(self, text: str) -> Iterator[str]:
        """What is whole by now; Esc alone is that key."""
        yield from self.tick()
        whole = ""
        for character in text:
            for piece in self._take(character):
                if piece == ESC:
                    if whole:
                        yield whole
                    whole = ""
                    yield ESC
                else:
                    whole += piece
        if whole:
            yield whole

    def tick(self) -> Iterator[str]:
        """What has waited long enough for its rest; to be called now and then."""
        waited = self._clock() - self._at
        if self._begun == ESC and waited >= ESCAPE_SECONDS:
            self._begun, self._loose = "", ""
            yield ESC
        elif self._begun and waited >= PIECES_SECONDS:
            self._begun = ""
        elif self._pasted is not None and waited >= PIECES_SECONDS:
            text, self._pasted = self._pasted, None
            yield _whole_paste(text)
        elif self._loose is not None and waited >= PIECES_SECONDS:
            yield from self._released()

    def _take(self, character: str) -> Iterator[str]:
        if self._pasted is not None:
            self._at = self._clock()
            text = self._pasted + character
            if len(text) > LONGEST_PASTE:
                text = text[: LONGEST_PASTE - len(PASTE_ENDS)] + text[-len(PASTE_ENDS) :]
            self._pasted = None if text.endswith(PASTE_ENDS) else text
            if self._pasted is None:
                yield _whole_paste(text)
        elif self._loose is not None:
            yield from self._take_loose(self._loose, character)
        elif self._begun:
            yield from self._take_more(character)
        elif character == ESC:
            self._begun, self._at = ESC, self._clock()
        else:
            yield character

    def _take_more(self, character: str) -> Iterator[str]:
        """A character of the key that has begun."""
        begun, self._begun = self._begun, ""
        whole = begun + character
        if character == ESC:
            # What had begun is Esc alone, or will never be whole.
            if begun == ESC:
                yield ESC
            self._begun, self._at = ESC, self._clock()
        elif whole in BEGINNINGS or (begun.startswith("\x1b[") and _is_inner(character, whole)):
            self._begun, self._at = whole, self._clock()
        else:
            self._pasted = "" if whole == PASTE_BEGINS else None
            yield whole

    def _take_loose(self, loose: str, character: str) -> Iterator[str]:
        """A character after Esc alone: swallowed if it is of a key."""
        self._at = self._clock()
        if ESC + loose + character in BEGINNINGS:
            self._loose = loose + character
        elif loose.startswith("[") and character != ESC:
            self._loose = loose + character if _is_inner(character, loose) else None
        elif loose == "O" and character in LAST_LETTERS:
            self._loose = None
        else:
            yield from self._released()
            yield from self._take(character)

    def _released(self) -> Iterator[str]:
        """Swallow no longer; an `O` that nothing followed was typed."""
        loose, self._loose = self._loose, None
        if loose == "O":
            yield loose
