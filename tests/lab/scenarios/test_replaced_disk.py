"""`replaced-disk`: the last leader is back with an empty disk, about to be elected (R1, R2)."""

from __future__ import annotations

from breakglass.services.model import Role, TopicPartition
from tests.lab.scenarios.damaged import Damaged, ends_on_disk, ends_told

CARTS = [TopicPartition("carts", number) for number in range(3)]


def test_r02_the_last_leader_is_back_empty_and_next_in_line(three_losses: Damaged) -> None:
    # A busy machine may have kept b4 from its heartbeats.
    three_losses.cluster.wait_unfenced(4)
    told = ends_told(three_losses)
    assert told == ends_on_disk(three_losses)
    for partition in CARTS:
        state, truth = three_losses.state(partition), three_losses.truth_of(partition)
        assert (state.leader, state.offline_replicas) == (None, ())
        assert state.role(4) in (Role.ISR, Role.LAST_KNOWN_ELR)
        assert [state.role(broker) for broker in (1, 2)] == [Role.STALE, Role.STALE]
        assert told[partition] == {4: 0, 1: 125, 2: 100}
        assert truth.replica(4).disk == "replaced"
        assert (truth.choice(4).committed, truth.choice(4).acked) == (125, 150)
        assert truth.choice(1).acked == 25
