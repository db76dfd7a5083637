"""What the exporter answers: known and fresh figures, and of all else that it is unknown."""

from dataclasses import replace

import pytest

from breakglass.services.backup_watch.location import LiveEnds
from breakglass.services.health.figure import Figure
from breakglass.services.incident.incident import Incident
from breakglass.services.model import Unknown
from breakglass.services.monitoring import meters
from breakglass.services.monitoring.meters import METERS, ExportedMetric, MeterReadings
from breakglass.services.monitoring.watching import IncidentFigures, Looks, MonitoredSource
from breakglass.services.snapshot import Quorum
from tests.kit.incidents import READ_AT_MS, forked, incident_of, nothing_offline, unread
from tests.screens.backups.held import MAIN
from tests.unit.monitoring.canned import (
    EVERY_MS,
    METASTORE,
    NOW_MS,
    STORE,
    Samples,
    health_of,
    looks,
    samples_of,
)

GONE = Unknown("no broker answers")
SECONDS = READ_AT_MS / 1000
OF_SOURCES = {meters.BUILD.name, meters.UP.name, meters.LOOKED.name}


@pytest.fixture(scope="module")
def canned(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    return looks(tmp_path_factory.mktemp("checkpoints"))


def answered(found: Looks, now_ms: int = NOW_MS) -> Samples:
    return samples_of(found.answer(now_ms, "1.0"))


def only(samples: Samples, meter: ExportedMetric) -> float:
    """The sample of a metric without labels."""
    return samples[meter.name][()]


def of_incident(incident: Incident) -> Samples:
    figures = Figure(IncidentFigures.of(incident), READ_AT_MS)
    source = MonitoredSource("cluster", "", figures, EVERY_MS)
    return answered(Looks(source, health_of(incident)))


def test_every_metric_has_a_sample_where_everything_is_known(canned: Looks) -> None:
    assert set(answered(canned)) == {meter.name for meter in METERS}
    assert len({meter.name for meter in METERS}) == len(METERS) > 30


def test_an_incident_is_counted_by_verdict_and_its_loss_summed(canned: Looks) -> None:
    samples = answered(canned)
    verdicts = samples[meters.VERDICTS.name]
    assert (verdicts["BOMB",], verdicts["unjudged",], sum(verdicts.values())) == (3, 0, 13)
    assert only(samples, meters.LOSS) >= 50
    assert only(samples, meters.LOSS_UNKNOWN) == 3, "forked, moving and unproven"
    for meter in (meters.COSTLY, meters.MISSING_ACLS, meters.SILENT, meters.FENCED):
        assert only(samples, meter) == 1, meter
    assert (only(samples, meters.OFFLINE), only(samples, meters.EVIDENCE)) == (13, SECONDS)
    none = of_incident(nothing_offline())
    assert only(none, meters.OFFLINE) == only(none, meters.LOSS) == 0
    assert meters.EVIDENCE.name not in none


def test_a_loss_that_nobody_knows_is_absent_and_never_0() -> None:
    for incident in (unread(3), incident_of(forked(5))):
        samples = of_incident(incident)
        assert meters.LOSS.name not in samples
        assert only(samples, meters.LOSS_UNKNOWN) == len(incident.rows)


def test_backups_checkpoints_and_metastores_have_age_lag_and_verification(canned: Looks) -> None:
    samples = answered(canned)
    commit, lag = samples[meters.BACKUP_COMMIT.name], samples[meters.BACKUP_LAG.name]
    assert commit[MAIN, "refunds"] == SECONDS - 49 * 3_600
    assert lag[MAIN, "orders"] == 25, "of the newest generation"
    assert (MAIN, "payments") not in lag, "one of its partitions is offline"
    verified = samples[meters.BACKUP_VERIFIED.name]
    assert (verified[MAIN, "orders"], verified[MAIN, "refunds"]) == (1, 0)
    assert samples[meters.BACKUP_TOPICS.name][MAIN, "unreadable"] == 1
    assert samples[meters.JOB_BEHIND.name]["restore", MAIN] == SECONDS
    assert samples[meters.CHECKPOINTS.name]["coordinated", STORE, "COMPLETED"] == 2
    assert samples[meters.CHECKPOINT_VERIFIED_AT.name]["coordinated", STORE] == SECONDS
    assert samples[meters.CHECKPOINT_DAMAGED.name]["coordinated", STORE] == 1
    assert samples[meters.METASTORE_COMMANDS.name][METASTORE, "default_"] == 12
    assert samples[meters.METASTORE_BEHIND.name][METASTORE, "default_"] == SECONDS - 1


def cluster_of(canned: Looks, looked: Figure[IncidentFigures]) -> Looks:
    return replace(canned, cluster=replace(canned.cluster, looked=looked))


def of_the_cluster(samples: Samples) -> set[str]:
    """Names of the metrics that only the cluster gives."""
    others = ("backup", "checkpoint", "metastore")
    return {
        name
        for name in set(samples) - OF_SOURCES
        if not name.removeprefix(meters.PREFIX).startswith(others)
    }


def test_a_cluster_that_cannot_be_read_again_has_no_figures_and_says_since_when(
    canned: Looks,
) -> None:
    before = answered(canned)
    samples = answered(cluster_of(canned, canned.cluster.looked.again(GONE, NOW_MS)))
    assert of_the_cluster(before) >= {meters.OFFLINE.name, meters.UNDER_MIN.name}
    assert of_the_cluster(samples) == set()
    assert samples[meters.UP.name]["", "cluster"] == 0
    assert samples[meters.LOOKED.name]["", "cluster"] == SECONDS
    assert samples[meters.UP.name][MAIN, "backups"] == 1
    assert samples[meters.BACKUP_COMMIT.name] == before[meters.BACKUP_COMMIT.name]


def test_figures_that_nobody_has_read_lately_are_left_out_after_three_looks(canned: Looks) -> None:
    last = READ_AT_MS + 3 * EVERY_MS
    assert of_the_cluster(answered(canned, last)) != set()
    samples = answered(canned, last + 1)
    assert set(samples) == OF_SOURCES | {meters.JOBS.name, meters.JOB_BEHIND.name}
    assert set(samples[meters.UP.name].values()) == {0}


def test_a_source_never_read_has_no_moment_and_a_lag_without_ends_is_absent(canned: Looks) -> None:
    samples = answered(cluster_of(canned, Figure(GONE, READ_AT_MS)))
    assert samples[meters.UP.name]["", "cluster"] == 0
    assert ("", "cluster") not in samples[meters.LOOKED.name]
    assert canned.ends is not None
    old: Figure[LiveEnds] = canned.ends.looked.again(GONE, NOW_MS)
    samples = answered(replace(canned, ends=replace(canned.ends, looked=old)))
    assert meters.BACKUP_LAG.name not in samples
    assert meters.BACKUP_COMMIT.name in samples


def test_a_quorum_that_does_not_answer_is_absent_and_one_without_leader_is_0(canned: Looks) -> None:
    health = canned.health
    silent = replace(health, quorum=health.quorum.again(GONE, NOW_MS))
    lost = replace(health, quorum=Figure(Quorum(None, 7, 900, ()), READ_AT_MS))
    assert meters.QUORUM.name not in answered(replace(canned, health=silent))
    assert only(answered(replace(canned, health=lost)), meters.QUORUM) == 0


def test_hostile_names_stay_in_their_labels() -> None:
    readings = MeterReadings()
    hostile = 'orders"} 1\nbreakglass_offline_partitions 0\n\\'
    readings.add(meters.BACKUP_LOST, 3, MAIN, hostile)
    assert samples_of(readings.exposition()) == {meters.BACKUP_LOST.name: {(MAIN, hostile): 3.0}}
