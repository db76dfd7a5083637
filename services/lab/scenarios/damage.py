"""The steps that scenarios are made of; each returns when the cluster shows that it happened.

In most scenarios brokers are lost one by one until no replica leads: b2 first, then b1, b3 and, if
there is one, b4. b1 and b2 return without the later records. b3 stays away. b4 may return last,
with empty disks.
"""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.node import Node
from breakglass.services.lab.scenarios.scenario import LabDamage, Shape
from breakglass.services.lab.segments import high_watermark_on_disk, read_log
from breakglass.services.lab.topics import elect_preferred, reassign
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import PartitionState, TopicPartition

FETCH_WAIT_MS = 500
"""replica.fetch.wait.max.ms: how long a leader parks the fetch of a follower at its end."""
SETTLE_SECONDS = 300.0
ASSIGN_REPLICAS_TO_DIRS = 73


def lose(cluster: Cluster, *brokers: int) -> None:
    """Kill brokers, as machines that are gone, and wait until nothing counts on them any more."""
    for broker in brokers:
        cluster.broker(broker).kill()
    wait_left(cluster, *brokers)


def lose_last(cluster: Cluster, *brokers: int, back: Sequence[int] = ()) -> None:
    """Kill brokers that lead alone, then start those in *back*, which missed what they wrote.

    Back when the killed ones are fenced and what they led is offline. Nobody else may run, so
    that is asked of those that came back; the leaders are gone before they start.
    """
    for broker in brokers:
        cluster.broker(broker).kill()
    for broker in back:
        cluster.broker(broker).start()
    cluster.wait_ready()
    wait_gone(cluster, *brokers)


def wait_left(cluster: Cluster, *brokers: int) -> None:
    """Wait until the brokers lead nothing, and are in the ISR of nothing that has a leader."""

    def left() -> bool:
        return not any(
            counts_on(state, broker) for state in cluster.partitions() for broker in brokers
        )

    cluster.wait_until(left, f"brokers {', '.join(map(str, brokers))} to leave every ISR")


def wait_gone(cluster: Cluster, *brokers: int) -> None:
    """Wait until brokers that may all be down are fenced, by asking the nodes that still run."""
    cluster.wait_fenced(*brokers)
    wait_left(cluster, *brokers)


def counts_on(state: PartitionState, broker: int) -> bool:
    """Whether an online partition is led by *broker* or has it in the ISR."""
    return state.leader == broker or (not state.offline and broker in state.isr)


def bring_back(cluster: Cluster, *brokers: int) -> None:
    """Start brokers that were lost, and wait until they are unfenced and say so themselves."""
    for broker in brokers:
        cluster.broker(broker).start()
    cluster.wait_ready()


def bring_back_empty(cluster: Cluster, broker: int) -> None:
    """Start a lost broker with new, empty disks, in time for no election of its own.

    Unfencing elects whom it can, and nobody can be elected whose directory the controller
    does not know yet. The broker tells it 100 ms after making its logs, at about the time it
    is unfenced (AssignmentsManager): here it is made to lose that race.
    """
    link = ControllerLink(cluster, broker)
    link.plan(withheld=[ASSIGN_REPLICAS_TO_DIRS])
    cluster.broker(broker).replace_disks()
    bring_back(cluster, broker)
    link.let_pass()
    cluster.wait_until(
        lambda: not any(broker in state.offline_replicas for state in cluster.partitions()),
        f"the new directories of broker {broker} to be known to the controller",
    )


def hold_followers(cluster: Cluster, leader: int, *followers: int) -> None:
    """Pause *followers* and wait until *leader* has nothing of theirs left to answer.

    A fetch that is parked at the leader would carry the next record into the socket of a paused
    follower, which would append it when it is resumed. Ours, parked later and for longer, ends
    after all of theirs; the second one, after those that a busy leader had not read yet.
    """

    def parked() -> bool:
        led = (state for state in cluster.partitions(via=leader) if state.leader == leader)
        return any(_parks(cluster.broker(leader), state) for state in led)

    what = f"broker {leader} to lead, and to park a fetch"
    # With its high watermark at its log's end: below that, a fetch at the end is answered at once.
    cluster.wait_until(parked, what)
    for follower in followers:
        cluster.broker(follower).pause()
    for _ in range(2):
        cluster.wait_until(parked, what)


def make_patient(cluster: Cluster, seconds: int) -> None:
    """Set the *seconds* that a broker may hang before it is fenced; restarts the controllers."""
    settings = {"broker.session.timeout.ms": str(seconds * 1000)}
    for controller in cluster.controllers:
        cluster.configure(controller.id, settings)
        controller.kill()
        controller.start()
    cluster.wait_until(
        lambda: cluster.read(quorum_leader) is not None, "the controllers to be back"
    )


def hang(cluster: Cluster, broker: int) -> None:
    """Pause a broker and wait until it is fenced; its connections stay open, unanswered."""
    cluster.broker(broker).pause()
    cluster.wait_fenced(broker)


def wait_checkpointed(
    cluster: Cluster, broker: int, partition: TopicPartition, offset: int
) -> None:
    """Wait until the broker's high watermark of *partition* is on disk, to outlive a kill."""
    node = cluster.broker(broker)

    def written() -> bool:
        folder = node.partition_folder(partition.topic, partition.partition)
        return folder is not None and high_watermark_on_disk(folder) == offset

    cluster.wait_until(written, f"the high watermark of {partition} on disk to be {offset}")


def reorder(cluster: Cluster, partition: TopicPartition, assignment: Sequence[int]) -> None:
    """Give an online partition's replicas another order, and let the new first one lead."""
    reassign(cluster, {partition: assignment})
    elect_preferred(cluster, partition)
    cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: state.leader == assignment[0] and state.assignment == tuple(assignment),
        f"broker {assignment[0]} to lead",
    )


def release(cluster: Cluster, *brokers: int) -> None:
    """Resume paused brokers."""
    for broker in brokers:
        cluster.broker(broker).resume()


def _parks(node: Node, state: PartitionState) -> bool:
    """Whether a fetch at the end of the log waits its time; one that cannot is answered at once."""
    from kafka.protocol.consumer import FetchRequest, FetchResponse

    topic_class = FetchRequest.FetchTopic
    name, number = state.partition.topic, state.partition.partition
    end = read_log(node.partition_folder(name, number)).end
    at_the_end = topic_class.FetchPartition(
        partition=number,
        current_leader_epoch=state.leader_epoch,
        fetch_offset=end,
        partition_max_bytes=1,
    )
    request = FetchRequest(
        max_wait_ms=2 * FETCH_WAIT_MS,
        min_bytes=1,
        topics=[topic_class(topic=name, topic_id=state.topic_id, partitions=[at_the_end])],
    )
    with Conversation(node.address(Listener.LAB), SETTLE_SECONDS) as conversation:
        answer = conversation.ask(request, FetchResponse)
    found = [partition for topic in answer.responses for partition in topic.partitions]
    return [(one.error_code, one.records or b"", one.high_watermark) for one in found] == [
        (0, b"", end)
    ]


def quorum_leader(node: Conversation) -> int | None:
    """The controller that leads, as *node* knows it; None: it names none."""
    from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse

    topic_class = DescribeQuorumRequest.TopicData
    metadata = topic_class.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[topic_class(topic_name="__cluster_metadata", partitions=[metadata])]
    )
    answer = node.ask(request, DescribeQuorumResponse)
    leaders = [
        partition.leader_id
        for topic in answer.topics
        for partition in topic.partitions
        if not answer.error_code and not partition.error_code
    ]
    return leaders[0] if leaders and leaders[0] >= 0 else None


def _hold(cluster: Cluster) -> None:
    hold_followers(cluster, 2, 1, 3)


def _lose_b2(cluster: Cluster) -> None:
    """Lose b2, with the records that it wrote while the other brokers were paused."""
    cluster.broker(2).kill()
    release(cluster, *[id for id in (1, 3) if cluster.broker(id).paused])
    lose(cluster, 2)


def _lose_the_last(cluster: Cluster) -> None:
    lose_last(cluster, *[node.id for node in cluster.brokers if node.id > 2], back=(1, 2))


B2_ALONE = LabDamage("b2 is alone", _hold)
"""b1 and b3 fetch nothing more; only what b2 leads may be written to, and only with acks=1."""
B2_LOST = LabDamage("b2 is lost", _lose_b2)
B1_LOST = LabDamage("b1 is lost", lambda cluster: lose(cluster, 1))
LAST_LOST = LabDamage("the last leaders are lost, b1 and b2 are back", _lose_the_last)
B4_EMPTY = LabDamage("b4 is back with empty disks", lambda cluster: bring_back_empty(cluster, 4))

QUICK_TO_FENCE = Shape(
    overrides={
        "broker.session.timeout.ms": "4000",
        "replica.high.watermark.checkpoint.interval.ms": "500",
    }
)
"""Each loss is waited out; below this a busy machine fences brokers that are well. A killed
broker comes back with the high watermark that it had, not with none, whatever the moment."""
COURSE = (B2_ALONE, B2_LOST, B1_LOST, LAST_LOST, B4_EMPTY)
