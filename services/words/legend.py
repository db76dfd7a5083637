"""The words of the lists, each in one line: what it means, and what to do.

`?` and `:` show these lines.
"""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """A word of a list or of a replica's line."""

    word: str
    meaning: str
    """A sentence or two; one line of 80 columns has room for it and the word."""


LEGEND = (
    Term("BOMB", "A log that lacks records is about to lead: stop that broker NOW."),
    Term("WAIT", "Starting the broker may bring it back; run a named rescue first."),
    Term("SAFE", "Electing it loses nothing that a readable replica holds."),
    Term("LOSS", "Electing loses records: read Loses and Unread, then decide."),
    Term("FORK", "Replicas hold different committed records: compare (d), decide."),
    Term("STUCK", "No election works yet: first fix the cause that the row names."),
    Term("Heard", "How many replicas have answered, out of how many."),
    Term("Unread", "Replicas that were not read. b3 >= 25: at least 25 only on b3."),
    Term("stale", "Not in sync when the leader was lost: it may lack records."),
    Term("elr", "Eligible leader replica: it has what was committed, if flushed."),
    Term("last", "The last known leader: never start it with an empty disk."),
)
