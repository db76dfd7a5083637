"""Hostile text made harmless: a terminal prints it and does nothing else.

Topic names, record keys and values, broker errors and notes are not ours: whatever shows them
passes them through `inert`, or `bounded` where there is not room for all of it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

CUT = "..."
"""Replaces the end of a text that does not fit."""
LONGEST_CHARACTER = 4
"""Bytes of the longest character in UTF-8."""


def inert(text: str) -> str:
    r"""Return *text* on one line, with every character that could act written out as an escape.

    Control characters, ANSI sequences, line breaks, bidirectional overrides, invisible and
    unpaired code points become ``\x1b``, ``\u202e`` and the like; what is printable stays.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def bounded(text: str, limit: int) -> str:
    """Return the inert *text* in at most *limit* characters; a text that is cut ends in ``...``.

    Only what can be shown is looked at: a text of 10 MB costs no more than its beginning.
    """
    shown = inert(text[: limit + 1])
    if len(shown) <= limit:
        return shown
    return shown[: max(limit - len(CUT), 0)] + CUT[:limit]


def bounded_bytes(content: bytes, limit: int) -> str:
    """As `bounded`, for bytes that should be UTF-8; invalid bytes become U+FFFD."""
    return bounded(content[: LONGEST_CHARACTER * (limit + 1)].decode("utf-8", "replace"), limit)


def bounded_url(url: str, limit: int) -> str:
    """As `bounded`, without what in a URL may be a secret: user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        # Not `hostname` and `port`: the first loses the case, the second may raise.
        kept = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        return bounded(kept.geturl(), limit)
    except ValueError:
        return bounded(url.partition("://")[0] or "?", limit)
