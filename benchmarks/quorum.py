"""Three copies of 200,000 partitions' metadata inspected, beside one read by Kafka's own tool."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from benchmarks._measure import Options, Program, meets, ours, print_load, run
from breakglass.services.lab.distribution import distribution, tool_command
from tests.kit.metadata_log import MetadataLog, noop, partition, record

PARTITIONS, IN_TOPIC, IN_BATCH = 200_000, 100, 1_000
CHANGES = 2_000
MOST_SECONDS, MOST_MEGABYTES = 10, 500
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def main(options: Options) -> bool:
    """Print seconds and megabytes, and the tool's for one copy; returns whether both are met."""
    print_load()
    partitions = options.partitions or PARTITIONS
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        whole = _log(partitions)
        shorter = whole.fork()
        for number in range(CHANGES):
            change = {
                "partition_id": number % IN_TOPIC,
                "topic_id": UUID(int=1 + number // IN_TOPIC),
            }
            whole.add(record("PartitionChangeRecord", 2, **change, isr=[2, 3], leader=2))
        paths = [
            log.save(folder / str(node), node).parent
            for node, log in enumerate((whole, whole, shorter), 101)
        ]
        sources = [f"log:{path}" for path in paths]
        found = run(ours("breakglass", folder, "quorum", "inspect", *sources), folder)
        segment = next((paths[0] / "__cluster_metadata-0").glob("*.log"))
        arguments = ("--cluster-metadata-decoder", "--files", str(segment))
        tool = run(
            Program("DumpLogSegments", tool_command(distribution(), DUMP, arguments)), folder
        )
        print(f"{segment.stat().st_size / 1e6:,.0f} MB a copy, {partitions:,} partitions")
        for name, one in (("breakglass, 3 copies", found), ("DumpLogSegments, 1 copy", tool)):
            print(f"  {name:<44} {one.wall:6.2f} s   cpu {one.cpu:5.2f} s   {one.peak_rss:4.0f} MB")
        fast = meets("time", found.wall, MOST_SECONDS, " s")
        return meets("memory", found.peak_rss, MOST_MEGABYTES, " MB") and fast


def _log(partitions: int) -> MetadataLog:
    log = MetadataLog()
    log.add(record("FeatureLevelRecord", name="metadata.version", feature_level=25), noop())
    waiting = []
    for number in range(partitions):
        topic_id = UUID(int=1 + number // IN_TOPIC)
        if not number % IN_TOPIC:
            name = f"topic-{number // IN_TOPIC}"
            waiting.append(record("TopicRecord", name=name, topic_id=topic_id))
        waiting.append(partition(topic_id, number % IN_TOPIC, (1 + number % 3, 4, 5)))
        if len(waiting) >= IN_BATCH:
            log.add(*waiting)
            waiting = []
    if waiting:
        log.add(*waiting)
    return log
