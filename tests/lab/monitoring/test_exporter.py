"""The exporter on real brokers: what it shows of an incident, and the alerts that follow."""

from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from breakglass.services.monitoring import meters
from tests.kit.program import breakglass
from tests.kit.promtool import firing, series_of, stage_of, wrong_in
from tests.lab.monitoring.incident import EXPECTED, STAGES, play_incident, value

RULES = Path(__file__).parents[3] / "docs" / "monitoring" / "breakglass-rules.yml"


def test_one_look_at_a_whole_cluster(three_brokers: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "breakglass.prom"

    ended = breakglass(
        *("serve", "metrics", "--bootstrap-server", three_brokers.bootstrap_servers),
        *("--once", "--out", file),
    )

    assert (ended.code, ended.out, ended.err) == (0, "", "")
    stage = stage_of(file.read_text("utf-8"))
    assert value(stage, meters.UP, source="cluster", place="") == 1
    assert value(stage, meters.OFFLINE) == value(stage, meters.SILENT) == 0
    assert value(stage, meters.BROKERS) == 3
    assert value(stage, meters.QUORUM) == 1
    cluster_id = three_brokers.layout.cluster_id
    assert value(stage, meters.CLUSTER, cluster_id=cluster_id) == 1


def test_the_alerts_fire_through_an_incident(tmp_path: Path) -> None:
    answers = play_incident(tmp_path)

    gone = stage_of(answers["unreachable"])
    assert {name for name, _ in gone if name == meters.OFFLINE.name} == set()
    assert value(gone, meters.LOOKED, source="cluster", place="") is not None
    assert value(gone, meters.UP, source="backups", place="/backups") == 1
    test = {
        "interval": "1m",
        "input_series": series_of([stage_of(answers[name]) for name in STAGES]),
        "promql_expr_test": list(firing(EXPECTED)),
    }
    assert wrong_in(tmp_path, RULES, [test]) == ""
