"""What the judge of a campaign finds besides: records that are missing, and faults of a put-back.

- **missing**: a readable replica's record is neither in the elected log nor rescued.
- **cut by a return**: the same, where nobody elected: a broker that was started led by itself, as a
  clean election has it, and the others cut what it did not have.
- **put back**: a saved record is not in its topic afterwards, or is there twice, or what was there
  has changed.

- **group**: a group goes on past records that it has not read, and no word names it; or the offset
  that it is offered does.
- **open**: a partition has a transaction without an end, and
  `after transactions list` does not name it.

Findings of other kinds are made where they are noticed: **changed** (a setting, or the order of an
assignment, is not as it was), **hung** (a command did not end), **unfinished** (a command that was
killed left something that its resumption did not finish). `breakglass.bookkeeping.judge` has the
rest: what was said, held against the disks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from breakglass.bookkeeping.judge import JudgeFinding, SavedRecord, missing_records
from breakglass.bookkeeping.log_files import NO_LOG, DiskReading, FolderLog, HeldRecord, Name

CUT = "cut by a return"
MOST_NAMED = 3
"""Records that a sentence names."""


Saved = Mapping[Name, Collection[SavedRecord]]


def check_missing(
    readable: Mapping[Name, Mapping[int, FolderLog]],
    after: DiskReading,
    leaders: Mapping[Name, int | None],
    saved: Saved,
    compacted: Collection[str],
) -> Iterator[tuple[Name, list[HeldRecord]]]:
    """By partition, what is missing; partitions that nobody leads have lost nothing yet."""
    for name, logs in sorted(readable.items()):
        leader = leaders.get(name)
        if leader is None:
            continue
        elected = after.held(name).get(leader, NO_LOG)
        lost = missing_records(logs, elected, saved.get(name, ()), compacted=name[0] in compacted)
        if lost:
            yield name, lost


def missing_findings(
    lost: Mapping[Name, Sequence[HeldRecord]], returned: Collection[Name]
) -> Iterator[JudgeFinding]:
    """A finding for each partition; one that *returned* by itself has a kind of its own."""
    for name, records in lost.items():
        kind = CUT if name in returned else "missing"
        some = ", ".join(f"{record.epoch}:{record.offset}" for record in records[:MOST_NAMED])
        yield JudgeFinding(
            kind, name, f"{len(records)} records ({some}) are in neither log nor rescue"
        )


def check_groups(
    group: str,
    committed: Mapping[Name, int],
    unread: Mapping[Name, Collection[str]],
    logs: Mapping[Name, FolderLog],
    said: Mapping[str, Any],
    text: str,
) -> Iterator[JudgeFinding]:
    """What `after groups list --json` leaves out; *unread*: digests of what no group has read."""
    moves = {_place(move): move["to"] for move in said["past_end"]}
    named = {*moves, *map(_place, said["left"])}
    # Of a group without leader epochs a sentence says what its place rests on.
    doubted = f"group {group} commits no leader epochs" in text
    for name, offset in committed.items():
        if name not in logs or said["unread"] or said["offline"]:
            continue
        log = logs[name]
        skipped = [r.offset for r in log.records if r.offset < offset and r.digest in unread[name]]
        stands = f"the group stands at {offset} of {log.end}, and has not read {len(skipped)} below"
        said_so = doubted or name in named or "{}-{}".format(*name) in text
        if (skipped or offset > log.end) and not said_so:
            yield JudgeFinding("group", name, f"{stands}; nothing says so")
        if skipped and moves.get(name, 0) > min(skipped):
            yield JudgeFinding("group", name, f"{stands}, and is offered {moves[name]}")


def check_open(logs: Mapping[Name, FolderLog], said: Mapping[str, Any]) -> Iterator[JudgeFinding]:
    """The led partitions whose open transactions `after transactions list --json` does not name."""
    named = set(map(_place, said["open"]))
    for name, log in logs.items():
        if log.pending and name not in named and not said["unread"]:
            yield JudgeFinding("open", name, f"{len(log.pending)} records of it are not named")


def _place(one: Mapping[str, Any]) -> Name:
    place = one if "topic" in one else one["partition"]
    return place["topic"], place["partition"]


def check_put_back(
    name: Name, before: FolderLog, after: FolderLog, saved: Collection[SavedRecord]
) -> Iterator[JudgeFinding]:
    """Each saved record is in the topic exactly once more, and what was there is as it was."""
    if [(r.offset, r.digest) for r in after.records[: len(before.records)]] != [
        (r.offset, r.digest) for r in before.records
    ]:
        yield JudgeFinding("put back", name, "the elected log is not as it was")
        return
    there = Counter(record.digest for record in after.records)
    was = Counter(record.digest for record in before.records)
    digests = {record.digest for record in saved}
    lacking = [digest for digest in digests if not there[digest]]
    twice = [digest for digest in digests if there[digest] > max(1, was[digest])]
    if lacking:
        yield JudgeFinding("put back", name, f"{len(lacking)} saved records are not in the topic")
    if twice:
        yield JudgeFinding("put back", name, f"{len(twice)} saved records are in the topic twice")
