"""A backup against a topic: what differs is found, by its offset."""

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline import verify
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.batches.tasks import Ranges
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.part_writer import exact_chunks
from breakglass.services.pipeline.verify import (
    ContentVerified,
    PartitionVerified,
    StretchComparison,
    TopicSides,
    verify_content,
)
from breakglass.services.topic_backup.store.store import LocalStore
from tests.lab.backup.backups import BackUp, unheard
from tests.lab.backup.producing import (
    delete_before,
    make,
    numbered,
    produce,
    shapes,
)


def compared_exactly(run: BackupRun, sides: TopicSides, ranges: Ranges) -> list[PartitionVerified]:
    """As `compare_topic`, but decoded record by record in this process."""
    found = []
    for number, (start, end) in ranges.items():
        source = sides.sources[number]
        comparison = StretchComparison(number, sides.stored[number])
        log = CommittedLog(run.client.sender, source.leader, source.partition)
        for chunk in exact_chunks(log, start, end):
            comparison.take(chunk)
        found.append(comparison.found)
    return found


def verified(back_up: BackUp, topic: str, against: str | None = None) -> ContentVerified:
    """What comparing in tasks finds, and no other than comparing record by record does."""
    settings = BackupSettings(LocalStore(back_up.root))
    folder, manifest = back_up.folder(topic), back_up.manifest(topic)
    meter = Meter(unheard)
    run = BackupRun(back_up.client, back_up.spark, back_up.access, settings, meter)
    found = verify_content(run, folder, manifest, against or topic)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(verify, "compare_topic", compared_exactly)
        exactly = verify_content(run, folder, manifest, against or topic)
    assert exactly.partitions == found.partitions
    return found


def test_differences_are_found_by_kind_and_offset(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    other = f"{topic}-other"
    make(whole_broker, topic)
    make(whole_broker, other)
    values = [{"key": b"k%d" % number, "value": b"v", "timestamp": 1} for number in range(10)]
    produce(whole_broker, topic, iter(values))
    changed = [*values[:4], {**values[4], "value": b"w"}, *values[5:8]]
    produce(whole_broker, other, iter(changed))
    back_up.topic(topic)
    (found,) = verified(back_up, topic, other).partitions
    assert found.counts == {"different": 1, "missing": 2}
    assert found.offsets == {"different": [4], "missing": [8, 9]}
    assert found.equal == 7


def test_a_backup_is_identical_to_its_topic_but_for_what_retention_removed_since(
    whole_broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(whole_broker, topic, partitions=2)
    produce(whole_broker, topic, shapes())
    produce(whole_broker, topic, iter([{"value": b"v", "timestamp": 2**63 - 1}]), partition=1)
    produce(whole_broker, topic, numbered(7), partition=1)
    back_up.topic(topic, max_segment_bytes=100_000)
    for expired in (0, 1):
        if expired:
            delete_before(whole_broker, topic, 1, 1)
        found = verified(back_up, topic)
        assert found.identical
        assert [part.equal for part in found.partitions] == [112, 8 - expired]
        assert [part.expired for part in found.partitions] == [0, expired]
