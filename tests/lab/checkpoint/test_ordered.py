"""The level ordered: a chain of applications that process at least once loses nothing."""

import os
from collections.abc import Iterable, Iterator

import pytest

from breakglass.services.checkpoint.kafka.topics import read_in_order, stages_of
from breakglass.services.checkpoint.protocol.lineage import ReadingStage
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from tests.lab.checkpoint.branch import soon
from tests.lab.checkpoint.chain import Chain, Judged, judged, read_values, stored
from tests.lab.checkpoint.taking import Taking

CHECKPOINTS = int(os.environ.get("ORDERED_CHECKPOINTS", "3"))
"""`make ordered` takes a hundred."""


BACKLOG = 6_000
"""Records that wait for the applications: what they have not processed yet is what is lost."""


@pytest.fixture
def chain(whole_broker: Cluster, topic: str) -> Chain:
    return Chain(whole_broker, topic).open()


@pytest.mark.timeout(1200 + 60 * CHECKPOINTS)
def test_checkpoints_of_a_chain_at_load_lose_nothing(
    chain: Chain, client: ReadClient, taking: Taking
) -> None:
    with chain.running(), taking.parts_of(chain.wanted) as (coordinator, finisher):
        for id in range(1, CHECKPOINTS + 1):
            chain.at_work(client)
            assert coordinator.take() == id
            assert finisher.finish(id).status is Status.COMPLETED
    found = [judged(chain, *stored(taking.store, id)) for id in range(1, CHECKPOINTS + 1)]
    assert [(judgement.lost, judgement.orphans) for judgement in found] == [((), 0)] * CHECKPOINTS


def test_read_a_moment_apart_the_order_loses_nothing_and_the_opposite_order_loses(
    chain: Chain, client: ReadClient
) -> None:
    stages = stages_of(chain.flows, (), chain.topics)
    chain.fill(BACKLOG)
    with chain.running():
        chain.at_work(client)
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
            chain.at_work(client, 100)

    offsets, ends = read_in_order(client, apart(), (), soon())
    # No restore moves a group past the end of a log.
    offsets = {
        group: {partition: min(offset, ends[partition]) for partition, offset in committed.items()}
        for group, committed in offsets.items()
    }
    return judged(chain, offsets, read_values(client, chain.topics, ends))


def test_a_partition_without_a_committed_offset_counts_from_the_start_of_its_log(
    chain: Chain, client: ReadClient
) -> None:
    """A restored group would begin there by its own setting, perhaps at the end."""
    stages = stages_of(chain.flows, (), chain.topics)
    offsets, ends = read_in_order(client, stages, (), soon())
    assert {group: set(committed.values()) for group, committed in offsets.items()} == {
        flow.group: {0} for flow in chain.flows
    }
    assert set(ends.values()) == {0}
