"""The names on docs/options.md that are said to be Kafka's own are in the help of Kafka's tools."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from breakglass.services.lab.distribution import distribution
from scripts.option_table import NAMES

PROGRAMS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
NOT_RELEASED = {"kafka-unclean-recovery.sh"}
"""Tools of a KIP that no release has."""


def names() -> dict[str, set[str]]:
    """The options that the page names, by tool of Kafka."""
    found: dict[str, set[str]] = {}
    rows = tomllib.loads(NAMES.read_text())["counterpart"]
    for tool, _, name in (their.partition(": ") for row in rows for their in row["theirs"]):
        if tool.startswith("kafka-") and tool not in NOT_RELEASED:
            found.setdefault(tool, set()).add(name)
    return found


@pytest.mark.parametrize("tool", sorted(names()))
def test_a_tool_of_kafka_has_the_options_that_the_page_names(tool: str) -> None:
    kafka = distribution()
    command = [str(kafka.java), "-Xshare:auto", "-cp", kafka.classpath, PROGRAMS[tool], "--help"]
    helped = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    offered = set(re.findall(r"--[a-z.-]*[a-z]", helped.stdout + helped.stderr))
    assert names()[tool] <= offered
