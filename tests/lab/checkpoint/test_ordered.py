"""The level ordered: a chain of applications that process at least once loses nothing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from breakglass.services.checkpoint.kafka.groups import read_named_groups
from breakglass.services.checkpoint.kafka.log_ends import read_ends, read_logs
from breakglass.services.checkpoint.kafka.ordered import read_in_order, stages_of
from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint
from breakglass.services.checkpoint.protocol.flows import ReadingStage
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.restore import restore
from breakglass.services.checkpoint.spark.restoring import CheckpointRestoreOptions, make_plan
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.restore.restore import RestoreRun
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import SECONDS
from tests.lab.checkpoint.chain import Chain, Judged, judged, read_values, stored, values_of
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking

CHECKPOINTS = int(os.environ.get("ORDERED_CHECKPOINTS", "3"))
"""`make ordered` takes a hundred."""


BACKLOG = 6_000
"""Records that wait for the applications: what they have not processed yet is what is lost."""


@pytest.fixture
def chain(broker: Cluster) -> Chain:
    return Chain(broker, f"chain-{uuid.uuid4().hex[:8]}").open()


def committed(chain: Chain, client: ReadClient) -> int:
    """All that the groups have committed."""
    logs = read_logs(client, chain.topics, Deadline.after(SECONDS))
    partitions = [state.partition for state in logs.states]
    groups = [flow.group for flow in chain.flows]
    found = read_named_groups(client, groups, partitions, Deadline.after(SECONDS))
    return sum(sum(offsets.values()) for offsets in found.values())


def at_work(chain: Chain, client: ReadClient, more: int = 200) -> None:
    """Return once both applications have committed *more* records."""
    before = committed(chain, client)
    wait_until(lambda: committed(chain, client) > before + more, "applications at work")


@pytest.mark.slow
@pytest.mark.timeout(300 + 10 * CHECKPOINTS)
def test_checkpoints_of_a_chain_at_load_lose_nothing(
    chain: Chain, client: ReadClient, taking: Taking, tmp_path: Path
) -> None:
    groups = {flow.group: GroupPolicy.AT_LEAST_ONCE for flow in chain.flows}
    wanted = WantedCheckpoint(Level.ORDERED, chain.topics, groups, chain.control, (), chain.flows)
    with chain.running(), taking.parts_of(wanted, chain) as (coordinator, finisher):
        for id in range(1, CHECKPOINTS + 1):
            at_work(chain, client)
            assert coordinator.take() == id
            assert finisher.finish(id).status is Status.COMPLETED
    found = [judged(chain, *stored(taking.store, id)) for id in range(1, CHECKPOINTS + 1)]
    assert [(judgement.lost, judgement.orphans) for judgement in found] == [((), 0)] * CHECKPOINTS
    again = restored(chain, taking, CHECKPOINTS, tmp_path)
    with again.running(source=False):
        wait_until(partial(_complete, again, client), "everything to be processed")


def restored(chain: Chain, taking: Taking, id: int, state: Path) -> Chain:
    """The chain in new topics, with its groups where the checkpoint has them."""
    again = replace(chain, suffix="-again")
    names = CheckpointRestoreOptions(dict(zip(chain.topics, again.topics, strict=True)))
    plan = make_plan(taking.client, taking.store, id, names, state)
    with (
        Journal.open(taking.cluster_id, state) as journal,
        taking.power.topics(taking.cluster_id) as topics,
        taking.power.markers(taking.cluster_id) as markers,
    ):
        work = RestoreRun(taking.run(chain), topics, journal, plan.plan.cluster_id)
        done = restore(work, markers, plan, chain.control)
    assert [(topic.error, topic.verified) for topic in done] == [("", True)] * len(done)
    return again


def _complete(chain: Chain, client: ReadClient) -> bool:
    """Whether each record of the first topic has led to one in the last."""
    _, ends = read_ends(client, chain.topics, Deadline.after(SECONDS))
    values = read_values(client, chain.topics, ends)
    first, _, last = chain.topics
    done = set(values_of(last, values))
    asked = list(values_of(first, values))
    return len(asked) > 100 and all(value + b">first>second" in done for value in asked)


@pytest.mark.slow
def test_read_a_moment_apart_the_order_loses_nothing_and_the_opposite_order_loses(
    chain: Chain, client: ReadClient
) -> None:
    stages = stages_of(chain.flows, (), chain.topics)
    chain.fill(BACKLOG)
    with chain.running():
        at_work(chain, client)
        opposite = _judge(chain, client, list(backwards(stages)))
        ordered = _judge(chain, client, stages)
    assert (ordered.lost, ordered.orphans) == ((), 0)
    assert opposite.lost


def backwards(stages: Iterable[ReadingStage]) -> Iterator[ReadingStage]:
    """Ends before the offsets, and inputs before outputs."""
    for stage in reversed(list(stages)):
        yield ReadingStage((), stage.topics)
        yield ReadingStage(stage.flows, ())


def _judge(chain: Chain, client: ReadClient, stages: Iterable[ReadingStage]) -> Judged:
    """What is read in *stages*, with the applications at work between any two of them."""

    def apart() -> Iterator[ReadingStage]:
        for stage in stages:
            yield stage
            at_work(chain, client, 100)

    found = read_in_order(client, apart(), (), Deadline.after(SECONDS))
    # No restore moves a group past the end of a log.
    offsets = {
        group: {
            partition: min(offset, found.ends[partition]) for partition, offset in committed.items()
        }
        for group, committed in found.offsets.items()
    }
    return judged(chain, offsets, read_values(client, chain.topics, found.ends))


def test_a_cycle_is_refused_by_its_name(chain: Chain, program: Program) -> None:
    a, b, _ = chain.topics
    flows = ("--flow", f"one:{a}>{b}", "--flow", f"two:{b}>{a}", "--level", "ordered")
    done = program("take", "--topics", ",".join(chain.topics), *flows)
    assert done.code == 3
    assert f"({a} > one > {b} > two > {a})" in done.err


def test_a_partition_without_a_committed_offset_counts_from_the_start_of_its_log(
    chain: Chain, client: ReadClient
) -> None:
    """A restored group would begin there by its own setting, perhaps at the end."""
    stages = stages_of(chain.flows, (), chain.topics)
    found = read_in_order(client, stages, (), Deadline.after(SECONDS))
    assert {group: set(offsets.values()) for group, offsets in found.offsets.items()} == {
        flow.group: {0} for flow in chain.flows
    }
    assert set(found.ends.values()) == {0}
