"""A plan on the table: what must be read again, what is saved, and what keeps it from elections."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import EvidenceChanged, WrongCluster
from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.recovery.plan.document import ChosenBy, Plan
from breakglass.services.recovery.plan.draft import (
    Draft,
    PresentEvidence,
    check_present,
    open_plan,
    present_of,
    renew,
    save_plan,
    tally,
)
from breakglass.services.recovery.plan.edit import exclude, set_leader
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot
from tests.kit.plans import read_plan, render_plan
from tests.unit.recovery.plans import CLUSTER, FORK, GONE, LOSS, SAFE, planned
from tests.unit.recovery.replicas import log, offline, silent


def test_partitions_that_were_not_read_again_keep_it_from_elections() -> None:
    plan = planned(SAFE, LOSS)
    draft = Draft.made(plan).held_against(present(plan, SAFE, unheard=(LOSS,)))
    assert draft.barrier == "it was read again but for 1 of its partitions: read everything again"


NOW_MS = 1_700_000_900_000


def present(
    plan: Plan,
    *evidence: PartitionEvidence,
    unheard: tuple[PartitionEvidence, ...] = (),
    cluster: str = CLUSTER,
) -> PresentEvidence:
    """What the cluster says now: *evidence* of offline and online ones, nothing of others."""
    snapshot = ClusterSnapshot(
        ClusterDescription(cluster, (), names_fenced=True),
        Unknown("not asked"),
        tuple(one.state for one in (*evidence, *unheard)),
        NOW_MS,
    )
    judged = [assess(one, GONE) for one in evidence if one.state.offline]
    return present_of(plan, snapshot, judged, NOW_MS)


def online(evidence: PartitionEvidence, leader: int) -> PartitionEvidence:
    return replace(evidence, state=replace(evidence.state, leader=leader))


LONGER = offline(log(1, (0, 130)), log(2, (0, 100)), silent(3), number=1, floor=100)
"""SAFE, where b1 was written to since."""
SHORTER_EPOCH = offline(
    log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 125), hw=100), silent(3),
    number=3, leader_epoch=12, floor=100,
)  # fmt: skip
"""LOSS, of another leader epoch."""


def test_each_election_stands_as_the_cluster_says_now() -> None:
    plan = planned(SAFE, LOSS)
    for now, expected in (
        (present(plan, LONGER, SHORTER_EPOCH), [CheckStatus.CHANGED, CheckStatus.RERANKED]),
        (present(plan, online(SAFE, 2)), [CheckStatus.ONLINE, CheckStatus.DELETED]),
        (present(plan, SAFE, LOSS), [CheckStatus.UNCHANGED] * 2),
        (present(plan, SAFE, unheard=(LOSS,)), [CheckStatus.UNCHANGED]),
        (present(plan, SAFE, LOSS, online(FORK, 1)), [CheckStatus.UNCHANGED] * 2),
    ):
        found = check_present(plan, now)
        assert [checked.status for checked in found.values()] == expected
        assert tally(found.values()) == Counter(expected)


def test_a_plan_for_another_cluster_is_not_held_against_this_one() -> None:
    with pytest.raises(WrongCluster):
        present(planned(SAFE), cluster="staging")


def test_a_renewed_plan_rests_on_the_evidence_of_now() -> None:
    plan = planned(SAFE, LOSS)
    now = present(plan, LONGER, SHORTER_EPOCH)
    after = renew(plan, now)
    assert after.leaders == {SAFE.partition: 1, LOSS.partition: 1}
    assert after.records[SAFE.partition].evidence == LONGER
    assert after.breakglass is not None
    assert after.breakglass.made_at_ms == NOW_MS
    assert {checked.status for checked in check_present(after, now).values()} == {
        CheckStatus.UNCHANGED
    }
    assert renew(plan, present(plan, SAFE, LOSS)).digest == plan.digest
    by_hand = renew(set_leader(plan, LOSS.partition, 2), now)
    assert by_hand.leaders[LOSS.partition] == 2
    assert by_hand.records[LOSS.partition].chosen_by is ChosenBy.HAND
    unheard = renew(plan, present(plan, LONGER, unheard=(LOSS,)))
    assert unheard.records[LOSS.partition] is plan.records[LOSS.partition]


def test_renewing_leaves_out_what_is_online_gone_or_no_longer_recommended() -> None:
    plan = planned(SAFE, LOSS, offline(log(1, (0, 9)), number=9))
    forked = replace(FORK, state=replace(FORK.state, partition=LOSS.partition))
    after = renew(plan, present(plan, online(SAFE, 2), forked))
    assert dict(after.leaders) == {}
    assert [record.left_out.split(":")[0] for record in after.left_out] == [
        "b2 leads it by now",
        "history fork",
        "there is no such partition any more",
    ]


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    save_plan(planned(SAFE, LOSS), path, None)
    return path


def test_a_file_that_somebody_wrote_meanwhile_is_kept(plan_file: Path) -> None:
    plan, opened = open_plan(plan_file)
    plan_file.write_text(render_plan(planned(LOSS)))
    with pytest.raises(EvidenceChanged):
        save_plan(plan, plan_file, opened)
    assert list(read_plan(plan_file).leaders) == [LOSS.partition]


def test_of_a_link_what_it_leads_to_is_replaced(plan_file: Path) -> None:
    link = plan_file.with_name("link.json")
    link.symlink_to(plan_file)
    plan, opened = open_plan(link)
    save_plan(exclude(plan, SAFE.partition), link, opened)
    assert link.is_symlink()
    assert list(read_plan(plan_file).leaders) == [LOSS.partition]
