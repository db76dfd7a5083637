"""Prometheus's own tool: rules checked, and tested with series that the exporter has written."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from breakglass.services.monitoring import meters
from tests.kit.extent import missing
from tests.kit.waiting import DEADLINE_SECONDS

STEPS = 10
"""Minutes that each stage of an incident lasts, with a sample a minute."""
STEP_SECONDS = 60

Labels = tuple[tuple[str, str], ...]
Stage = Mapping[tuple[str, Labels], float]


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run it; without it the test is skipped, but never in CI."""
    program = shutil.which("promtool")
    if program is None:
        missing("needs promtool: apt-get install prometheus")
    words = [program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_SECONDS)


def stage_of(answer: str) -> Stage:
    """Every sample of what the exporter answered at one moment."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer)
        for sample in family.samples
    }


def series_of(stages: Sequence[Stage]) -> list[dict[str, str]]:
    """The stages of an incident, one after the other, as ``input_series`` of a test of rules.

    The incident begins at time 0, as promtool has it: moments keep their distance from the last
    look at the cluster. A series that a stage lacks is stale, as Prometheus has it after a scrape.
    """
    keys = sorted({key for stage in stages for key in stage})
    return [
        {
            "series": _written(*key),
            "values": " ".join(_values(key, stage, at) for at, stage in enumerate(stages)),
        }
        for key in keys
    ]


def _values(key: tuple[str, Labels], stage: Stage, at: int) -> str:
    value, name = stage.get(key), key[0]
    if value is None:
        return f"stale _x{STEPS - 1}"
    if not name.endswith("_timestamp_seconds"):
        return f"{value:g}+0x{STEPS - 1}"
    # When the stage was seen: the newest look at any source.
    begins = at * STEPS * STEP_SECONDS - (
        max(value for (name, _), value in stage.items() if name == meters.LOOKED.name) - value
    )
    up = stage.get((meters.UP.name, key[1])) == 1
    rises = STEP_SECONDS if name == meters.LOOKED.name and up else 0
    return f"{begins:.3f}+{rises}x{STEPS - 1}"


def _written(name: str, labels: Labels) -> str:
    return f"{name}{{{', '.join(f'{label}={json.dumps(value)}' for label, value in labels)}}}"


def firing(alerts: Mapping[int, Sequence[str]]) -> Iterator[dict[str, Any]]:
    """The tests that, at each minute, exactly these alerts fire."""
    for minute, names in alerts.items():
        yield {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{minute}m",
            "exp_samples": [
                {"labels": f'{{alertname="{name}"}}', "value": number}
                for name, number in sorted({name: names.count(name) for name in names}.items())
            ],
        }


def wrong_in(folder: Path, rules: Path, tests: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong in *tests* of *rules*; empty where each of them passes."""
    # JSON is YAML.
    file = folder / "rules_test.yml"
    file.write_text(
        json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": list(tests)})
    )
    ended = promtool("test", "rules", file)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr
