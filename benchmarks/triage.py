"""Triage of thousands of offline partitions, against a tool that only lists them.

The tool reads no records, so ours is held against it without reading contents; what that adds is
held against the time that a reading may take for it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from benchmarks._many import Many, many_offline, readable_ends
from benchmarks._measure import (
    Options,
    Run,
    in_turn,
    kafka_tool,
    lean_kafka_tool,
    median_wall,
    meets,
    ours,
    print_load,
    print_program,
)
from breakglass.services.kafka.replicas.limits import SECONDS
from breakglass.services.lab.distribution import TOPICS
from breakglass.services.session import Effort

PARTITIONS = 2000
RUNS = 7
RATIO = 0.5
MEGABYTES = 120


def main(options: Options) -> bool:
    """Print both medians and their ratio; returns whether it and our memory are within bounds."""
    count = options.partitions or PARTITIONS
    with many_offline(count) as many:
        print(f"triage of {count:,} offline partitions, every live replica's end and epoch told")
        print_load()
        kafka, listing = many.cluster.kafka, ("--describe", "--unavailable-partitions")
        mine = ours("breakglass", many.folder, "triage", "--json", *many.bootstrap)
        off = ("--verify-contents", Effort.OFF.value)
        bare = ours("breakglass", many.folder, "triage", "--json", *many.bootstrap, *off)
        bare = replace(bare, name=f"{bare.name} {' '.join(off)}")
        peer = kafka_tool(kafka, "kafka-topics.sh", TOPICS, *many.bootstrap, *listing)
        lean = lean_kafka_tool(kafka, "kafka-topics.sh", TOPICS, *many.bootstrap, *listing)
        programs = (peer, lean, bare, mine)
        measured = in_turn(options.runs or RUNS, programs, many.folder)
        _check(many.folder / "stdout", many)
        for program, found in zip(programs, measured, strict=True):
            print_program(program, found)
        return _judge(measured[0], measured[2], measured[3])


def _judge(peer: list[Run], bare: list[Run], mine: list[Run]) -> bool:
    ratio = median_wall(bare) / median_wall(peer)
    peak = max(run.peak_rss for run in mine)
    quick = meets("breakglass triage / kafka-topics.sh", ratio, RATIO)
    added = median_wall(mine) - median_wall(bare)
    quick = meets("added by reading contents", added, SECONDS, " s") and quick
    return meets("peak memory of breakglass triage", peak, MEGABYTES, " MB") and quick


def _check(output: Path, many: Many) -> None:
    """What ours printed last is all of it and true.

    Raises:
        RuntimeError: it is not.
    """
    told = json.loads(output.read_text(encoding="utf-8"))
    if (
        {
            (one["topic"], one["partition"], replica["broker"]): (
                replica["log_end"],
                replica["written_epochs"][-1]["epoch"],
            )
            for one in told["partitions"]
            for replica in one["replicas"]
            if isinstance(replica["log_end"], int)
        }
    ) != readable_ends(many.truth.partitions):
        raise RuntimeError("the triage did not tell what the replicas hold: nothing was measured")
