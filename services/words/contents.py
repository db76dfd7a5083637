"""How far a replica's contents were read, in the words of tables and sentences."""

from __future__ import annotations

from breakglass.services.model import ReplicaLog, Unknown


def contents_text(replica: ReplicaLog) -> str:
    """``whole 0..120``, ``whole 80..120, older not read``, ``corrupt at 40``, ``empty``."""
    contents = replica.contents
    if isinstance(contents, Unknown):
        return "not read"
    start, end = contents.verified_from, contents.verified_to
    older = ", older not read" if contents.stopped else ""
    if start == end == replica.log_end and not older:
        return "empty"
    if contents.corrupt_at is not None:
        return f"corrupt at {contents.corrupt_at:,}{older}"
    if isinstance(replica.log_end, int) and end < replica.log_end:
        return f"whole {start:,}..{end:,}, the rest not read"
    return f"whole {start:,}..{end:,}{older}"


def contents_sentence(replica: ReplicaLog) -> str:
    """The same with the reason why more was not read, or with what is wrong."""
    contents = replica.contents
    if isinstance(contents, Unknown):
        return contents.reason
    why = "; ".join([reason for reason in (contents.damage, contents.stopped) if reason])
    return f"contents {contents_text(replica)}{f' ({why})' if why else ''}"
