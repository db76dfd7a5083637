"""The exporter on real brokers: what it shows of an incident, and the alerts that follow."""

import json
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from breakglass.services.monitoring import meters
from tests.kit.program import breakglass
from tests.kit.promtool import firing, series_of, stage_of, wrong_in
from tests.lab.monitoring.incident import EVENTS, EXPECTED, STAGES, play_incident, value

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


def test_the_alerts_fire_and_events_are_sent_through_an_incident(tmp_path: Path) -> None:
    answers = play_incident(tmp_path)

    sent = [json.loads(line) for line in (tmp_path / EVENTS).read_text("utf-8").splitlines()]
    (bomb,) = [event for event in sent if event["event"] == "bomb"]
    assert (bomb["count"], {one["topic"] for one in bomb["partitions"]}) == (3, {"carts"})
    offline = [event for event in sent if event["event"] == "offline"]
    assert sum(event["count"] for event in offline) >= 4, "the four partitions of the scenarios"
    assert sent.index(offline[0]) < sent.index(bomb)
    turned = [event for event in sent if event["event"] == "verdict"]
    verdicts = {one["verdict"] for event in turned for one in event["partitions"]}
    assert "WAIT" in verdicts, "of the partition whose last leader is not there"
    assert sent[-1]["event"] == "behind", "nothing of the cluster answers"
    assert all(event["missed"] == 0 for event in sent)

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
