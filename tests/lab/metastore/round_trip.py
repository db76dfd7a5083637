"""The whole accident of KLIP-31: backed up, retention.ms=0, alarm, restored, replayed, compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.metastore.log.reader import Replay
from breakglass.services.metastore.records import CommandRecord
from tests.kit.waiting import wait_until
from tests.lab.metastore.commands import following, run
from tests.lab.metastore.topics import CommandTopic
from tests.unit.metastore.test_live_backup import stored


@dataclass(frozen=True)
class RoundTrip:
    """What it came to."""

    commands: int
    alarm_seconds: float
    """From the change of the setting to the alarm."""
    restore_seconds: float
    digest: str
    objects: int
    queries: int


def digest_of(records: Sequence[CommandRecord]) -> Replay:
    """The metastore that they are."""
    replay = Replay()
    for record in records:
        assert replay.take(record), replay.degraded
    return replay


def round_trip(
    topic: CommandTopic, records: Sequence[CommandRecord], folder: Path, *, vanish: bool
) -> RoundTrip:
    """Go through it with *records*; with *vanish* wait until the broker has deleted them."""
    half = len(records) // 2
    written = topic.produce(records[:half], group=3)
    words = ("backup", "--service-id", topic.service_id, "--store", str(folder))
    with following(topic.cluster, *words) as follower:
        follower.event("caught up")
        written += topic.produce(records[half:], group=3)
        began = time.monotonic()
        topic.configure(retention_ms="0")
        alarm = follower.alarm("retention.ms") - began
        if vanish:
            follower.alarm("records deleted")
        (file,) = folder.glob("*.bak")
        wait_whole(file, written)
        follower.stop()
    before = digest_of(written)
    if vanish:
        wait_gone(topic)
    began = time.monotonic()
    restored(topic, file)
    seconds = time.monotonic() - began
    read = topic.read()
    assert read == written
    after = digest_of(read).metastore
    assert after.digest == before.metastore.digest
    counts = len(after.sources) + len(after.types), len(after.queries)
    return RoundTrip(len(read), alarm, seconds, after.digest, *counts)


def wait_whole(file: Path, written: Sequence[CommandRecord]) -> None:
    """Until the backup has all of it, offsets, times and headers as well."""
    wait_until(lambda: stored(file) == list(written), f"all of it in {file}", every=0.2)


def wait_gone(topic: CommandTopic) -> None:
    """Until the broker has deleted every command."""
    wait_until(lambda: not topic.read(), f"{topic.name} to be empty", every=0.2)


def restored(topic: CommandTopic, file: Path) -> None:
    """Restore *file*, with the phrase that the refusal names."""
    words = ("restore", str(file), "--write")
    refused = run(topic.cluster, *words)
    phrase = refused.err.rstrip().splitlines()[-1].removeprefix("consent: ")
    done = run(topic.cluster, *words, "--consent", phrase)
    assert done.code == 0, done.err
    assert done.out.endswith("identical\n")
