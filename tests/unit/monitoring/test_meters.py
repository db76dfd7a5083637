"""The alert rules and the dashboard: Prometheus reads them, and they fire when they should."""

import json
import re
from pathlib import Path
from typing import Any

from breakglass.services.monitoring.meters import METERS, PREFIX
from tests.kit.promtool import firing, promtool, series_of, stage_of, wrong_in
from tests.lab.monitoring.incident import EXPECTED, STAGES

ROOT = Path(__file__).parents[3]
RULES = ROOT / "docs" / "monitoring" / "breakglass-rules.yml"
DASHBOARD = ROOT / "docs" / "monitoring" / "grafana-dashboard.json"
PAGE = ROOT / "docs" / "watch.md"
KEPT = ROOT / "tests" / "golden" / "exporter"
"""What the exporter answered during the incident of `tests/lab/monitoring`, on real brokers."""
NAME = re.compile(rf"\b{PREFIX}[a-z_]+")
NAMES = {meter.name for meter in METERS}
WEEK = 7 * 86_400


def of_dashboard() -> list[str]:
    """Every expression of the dashboard."""
    found: list[str] = []

    def keep(node: dict[str, Any]) -> dict[str, Any]:
        found.extend([node["expr"]] if "expr" in node else [])
        return node

    json.loads(DASHBOARD.read_text("utf-8"), object_hook=keep)
    return found


def test_prometheus_reads_the_rules_and_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    found = of_dashboard()
    assert len(found) > 30
    panels = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(found)]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": panels}]}))
    for checked in (("--lint=all", "--lint-fatal", RULES), (file,)):
        ended = promtool("check", "rules", *checked)
        assert ended.returncode == 0, ended.stderr


def test_every_metric_of_rules_dashboard_and_page_is_exported() -> None:
    for text in (RULES.read_text("utf-8"), " ".join(of_dashboard()), PAGE.read_text("utf-8")):
        assert set(NAME.findall(text)) - NAMES == set()


def test_every_metric_is_in_a_rule_or_a_panel() -> None:
    used = NAME.findall(RULES.read_text("utf-8") + " ".join(of_dashboard()))
    # Both tell which cluster or release it is, and when evidence was read; nothing alarms of them.
    quiet = {"cluster_info", "build_info", "evidence_timestamp_seconds", "backup_verified"}
    quiet |= {"backup_lost_offsets"}
    assert NAMES - set(used) <= {f"{PREFIX}{name}" for name in quiet}


def test_the_rules_fire_through_an_incident_on_real_brokers_as_it_was_kept(tmp_path: Path) -> None:
    stages = [stage_of((KEPT / f"{name}.prom").read_text("utf-8")) for name in STAGES]
    test = {
        "interval": "1m",
        "input_series": series_of(stages),
        "promql_expr_test": list(firing(EXPECTED)),
    }
    assert wrong_in(tmp_path, RULES, [test]) == ""


BACKUP = '{place="/backups", topic="orders"}'
CHECKPOINT = '{place="/c", level="vector"}'
METASTORE = '{place="/m", service="default_"}'
SUCCESS = 'source_last_success_timestamp_seconds{source="cluster", place=""}'
FAILED = 'checkpoints{place="/c", level="vector", state="FAILED"}'
BOMBS = 'offline_partitions_by_verdict{verdict="BOMB"}'
ALARMS = [
    # A series, its samples, a minute, and what then fires: None for nothing.
    (f"backup_commit_timestamp_seconds{BACKUP}", "-86000+0x20", 6, None),
    (f"backup_commit_timestamp_seconds{BACKUP}", "-86000+0x20", 7, "BackupOld"),
    (f"backup_verified{BACKUP}", "0+0x100", 60, "BackupUnverified"),
    (f"backup_verified_timestamp_seconds{BACKUP}", f"{-WEEK - 60}+0x100", 61, "BackupUnverified"),
    (FAILED, "0+0x10 1+0x60", 13, "CheckpointFailed"),
    (f"checkpoint_damaged_partitions{CHECKPOINT}", "2+0x10", 1, "CheckpointDamaged"),
    (f"metastore_backup_followed{METASTORE}", "0+0x20", 10, "MetastoreNotFollowed"),
    (f"metastore_backup_alarm_timestamp_seconds{METASTORE}", "5+0x10", 0, "MetastoreAlarm"),
    (SUCCESS, "0+0x20", 15, None),
    (SUCCESS, "0+0x20", 16, "FiguresOld"),
    (BOMBS, "0 3", 0, None),
    (BOMBS, "0 3", 1, "Bomb"),
]


def test_backups_old_figures_and_bombs_alarm(tmp_path: Path) -> None:
    build = {"series": 'breakglass_build_info{version="1"}', "values": "1+0x1000"}
    tests = [
        {
            "interval": "1m",
            "input_series": [build, {"series": f"{PREFIX}{series}", "values": values}],
            "promql_expr_test": list(firing({minute: [f"Breakglass{alert}"] if alert else []})),
        }
        for series, values, minute, alert in ALARMS
    ]
    assert wrong_in(tmp_path, RULES, tests) == ""
