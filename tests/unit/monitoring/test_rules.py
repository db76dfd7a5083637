"""The alert rules and the dashboard: Prometheus reads them, and they fire when they should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.monitoring.meters import METERS, PREFIX
from tests.kit.promtool import firing, promtool, series_of, stage_of, wrong_in
from tests.lab.monitoring.incident import EXPECTED, STAGES

ROOT = Path(__file__).parents[3]
RULES = ROOT / "docs" / "monitoring" / "breakglass-rules.yml"
DASHBOARD = ROOT / "docs" / "monitoring" / "grafana-dashboard.json"
PAGE = ROOT / "docs" / "monitoring.md"
KEPT = ROOT / "tests" / "golden" / "exporter"
"""What the exporter answered during the incident of `tests/lab/monitoring`, on real brokers."""
NAME = re.compile(rf"\b{PREFIX}[a-z_]+")
NAMES = {meter.name for meter in METERS}
WEEK = 7 * 86_400


def expressions(node: Any) -> Iterator[str]:
    """Every expression of a dashboard, or of a part of one."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "expr":
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def of_dashboard() -> list[str]:
    return list(expressions(json.loads(DASHBOARD.read_text("utf-8"))))


def test_prometheus_reads_the_rules() -> None:
    ended = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert ended.returncode == 0, ended.stderr


def test_prometheus_reads_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    found = of_dashboard()
    assert len(found) > 30
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(found)]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))

    ended = promtool("check", "rules", file)

    assert ended.returncode == 0, ended.stderr


def test_every_metric_of_rules_dashboard_and_page_is_exported() -> None:
    for text in (RULES.read_text("utf-8"), " ".join(of_dashboard()), PAGE.read_text("utf-8")):
        assert set(NAME.findall(text)) - NAMES == set()


def test_every_metric_is_on_the_page_and_in_a_rule_or_a_panel() -> None:
    assert NAMES - set(NAME.findall(PAGE.read_text("utf-8"))) == set()
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


def test_a_rule_that_does_not_fire_as_expected_is_found(tmp_path: Path) -> None:
    test = {
        "interval": "1m",
        "input_series": [{"series": "breakglass_source_up{}", "values": "1+0x9"}],
        "promql_expr_test": list(firing({3: ["BreakglassSourceDown"]})),
    }
    assert "BreakglassSourceDown" in wrong_in(tmp_path, RULES, [test])


ONE_PLACE = 'place="/backups", topic="orders"'
BUILD = {"series": 'breakglass_build_info{version="1"}', "values": "1+0x1000"}


@pytest.mark.parametrize(
    ("series", "values", "minute", "alerts"),
    [
        pytest.param(
            f"breakglass_backup_commit_timestamp_seconds{{{ONE_PLACE}}}",
            "-86000+0x20", 6, [], id="a backup of a day",
        ),
        pytest.param(
            f"breakglass_backup_commit_timestamp_seconds{{{ONE_PLACE}}}",
            "-86000+0x20", 7, ["BreakglassBackupOld"], id="a backup that is older",
        ),
        pytest.param(
            f"breakglass_backup_verified{{{ONE_PLACE}}}",
            "0+0x100", 60, ["BreakglassBackupUnverified"], id="never verified",
        ),
        pytest.param(
            f"breakglass_backup_verified_timestamp_seconds{{{ONE_PLACE}}}",
            f"{-WEEK - 60}+0x100", 61, ["BreakglassBackupUnverified"], id="not for a week",
        ),
        pytest.param(
            'breakglass_checkpoints{place="/c", level="vector", state="FAILED"}',
            "0+0x10 1+0x60", 13, ["BreakglassCheckpointFailed"], id="a checkpoint that fails",
        ),
        pytest.param(
            'breakglass_checkpoint_damaged_partitions{place="/c", level="vector"}',
            "2+0x10", 1, ["BreakglassCheckpointDamaged"], id="a damaged checkpoint",
        ),
        pytest.param(
            'breakglass_metastore_backup_followed{place="/m", service="default_"}',
            "0+0x20", 10, ["BreakglassMetastoreNotFollowed"], id="nobody follows",
        ),
        pytest.param(
            'breakglass_metastore_backup_alarm_timestamp_seconds{place="/m", service="default_"}',
            "5+0x10", 0, ["BreakglassMetastoreAlarm"], id="an alarm of the metastore",
        ),
        pytest.param(
            'breakglass_source_last_success_timestamp_seconds{source="cluster", place=""}',
            "0+0x20", 15, [], id="a file that was written a quarter of an hour ago",
        ),
        pytest.param(
            'breakglass_source_last_success_timestamp_seconds{source="cluster", place=""}',
            "0+0x20", 16, ["BreakglassFiguresOld"], id="a file that nobody writes any more",
        ),
    ],
)  # fmt: skip
def test_backups_and_old_figures_alarm(
    series: str, values: str, minute: int, alerts: list[str], tmp_path: Path
) -> None:
    test = {
        "interval": "1m",
        "input_series": [BUILD, {"series": series, "values": values}],
        "promql_expr_test": list(firing({minute: alerts})),
    }
    assert wrong_in(tmp_path, RULES, [test]) == ""


def test_a_bomb_says_what_to_do(tmp_path: Path) -> None:
    labels = {"verdict": "BOMB", "severity": "critical"}
    test = {
        "interval": "1m",
        "input_series": [
            {
                "series": 'breakglass_offline_partitions_by_verdict{verdict="BOMB"}',
                "values": "0 3",
            }
        ],
        "alert_rule_test": [
            {"alertname": "BreakglassBomb", "eval_time": "0m", "exp_alerts": []},
            {
                "alertname": "BreakglassBomb",
                "eval_time": "1m",
                "exp_alerts": [
                    {
                        "exp_labels": labels,
                        "exp_annotations": {
                            "summary": "3 partitions are about to elect a replica that destroys "
                            "what others hold",
                            "action": "Run `breakglass triage`: its first line names the broker to "
                            "stop NOW.",
                        },
                    }
                ],
            },
        ],
    }
    assert wrong_in(tmp_path, RULES, [test]) == ""
