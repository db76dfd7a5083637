"""Twice the partitions are twice the work, from the brokers' answers to the ledger."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from breakglass.services.guard.journal import Journal
from breakglass.services.incident.forecast import forecast_of
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import judged_rows
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.acts.elect import Elect, frozen_elections
from breakglass.services.recovery.evidence.assemble import assemble
from breakglass.services.recovery.guarded.subject import ElectionSubject, subject_of
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.summary import summarize
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.ledger.assemble import ledger_of
from breakglass.services.recovery.ledger.sources import gathered
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.draft import open_plan, save_plan
from breakglass.services.recovery.plan.edit import never
from breakglass.services.recovery.plan.make import consent_groups, make_plan, totals_of
from breakglass.services.recovery.plan.rows import plan_rows
from breakglass.services.recovery.timeline.shelf import account_of
from tests.kit.large_cluster import LargeCluster, generated
from tests.kit.work import calls_of

FEW, MANY = 500, 1000
LINEAR = 2.2
"""Twice the partitions may be so many times the work: sorting is a little more than twice."""
CLUSTER = "large-cluster"
OWN_BROKER = 1


class Size(NamedTuple):
    """An incident with everything that is made of it."""

    cluster: LargeCluster
    evidence: tuple[PartitionEvidence, ...]
    assessments: list[Assessment]
    incident: Incident
    plan: Plan
    subject: ElectionSubject
    folder: Path

    @property
    def circumstances(self) -> Circumstances:
        return self.incident.circumstances

    @property
    def partitions(self) -> list[TopicPartition]:
        """Of the incident, the last first."""
        return [evidence.partition for evidence in reversed(self.evidence)]


def _of(count: int, folder: Path) -> Size:
    cluster = generated(count, count)
    evidence = _assembled(cluster)
    circumstances = Circumstances(cluster.snapshot.quorum)
    assessments = [assess(partition, circumstances) for partition in evidence]
    rows = tuple(judged_rows(evidence, circumstances, 0))
    folder.mkdir()
    return Size(
        cluster,
        evidence,
        assessments,
        Incident(cluster.snapshot, circumstances, rows),
        make_plan(assessments, CLUSTER, 0),
        subject_of(CLUSTER, [each.partition for each in assessments], assessments),
        folder,
    )


def _assembled(cluster: LargeCluster) -> tuple[PartitionEvidence, ...]:
    snapshot = cluster.snapshot
    return assemble(
        snapshot.offline,
        snapshot.description,
        snapshot.settings,
        cluster.answers,
        cluster.silent,
        {},
    )


def _saved(size: Size) -> object:
    path = size.folder / "plan.json"
    opened = save_plan(size.plan, path, None)
    read, again = open_plan(path)
    assert (read.digest, again.fingerprint) == (size.plan.digest, opened.fingerprint)
    return plan_rows(read), consent_groups(read), totals_of(read)


def _reported(size: Size) -> object:
    """Journalled and accounted for."""
    act = Elect(find=lambda _: size.subject)
    with Journal.open(CLUSTER, size.folder) as journal:
        act.announce(journal, frozen_elections(size.subject), ["agreed"], implied=False)
    return ledger_of(gathered(account_of(journal.path), size.folder)).sums


STEPS: dict[str, Callable[[Size], object]] = {
    "evidence": lambda size: _assembled(size.cluster),
    "verdicts": lambda size: [assess(each, size.circumstances) for each in size.evidence],
    "headline": lambda size: summarize(size.assessments),
    "rows": lambda size: list(judged_rows(size.evidence, size.circumstances, 0)),
    "forecast": lambda size: forecast_of(size.incident.rows),
    "evidence thawed": lambda size: list(size.incident.assessments(size.partitions)),
    "plan": lambda size: make_plan(size.assessments, CLUSTER, 0),
    "plan written and read": _saved,
    "edit": lambda size: never(size.plan, OWN_BROKER, only=size.partitions).digest,
    "subject": lambda size: subject_of(CLUSTER, size.partitions, size.assessments).summed(),
    "left out": lambda size: size.subject.without(size.partitions, "changed"),
    "ledger": _reported,
}


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Size, Size]:
    """An incident, and one of twice the partitions."""
    folder = tmp_path_factory.mktemp("sizes")
    return _of(FEW, folder / "few"), _of(MANY, folder / "many")


@pytest.mark.parametrize("step", STEPS)
def test_twice_the_partitions_are_twice_the_work(sizes: tuple[Size, Size], step: str) -> None:
    few, many = (calls_of(partial(STEPS[step], size)) for size in sizes)
    assert 0 < many <= LINEAR * few, f"{step}: {few:,} calls for {FEW}, {many:,} for {MANY}"


def test_the_large_cluster_has_every_verdict_and_every_broker_down_holds_some(
    sizes: tuple[Size, Size],
) -> None:
    summary = summarize(sizes[1].assessments)
    assert set(summary.counts) == {"WAIT", "FORK", "LOSS", "SAFE"}
    restores = forecast_of(sizes[1].incident.rows).restores
    assert len(restores) > 50
    assert len({each.evidence.replicas[0].log_end for each in sizes[1].assessments}) > 100
