"""Plan files for the plan commands, made from evidence without a broker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from breakglass.services.model import PartitionEvidence
from breakglass.services.recovery.plan.document import write_plan
from tests.kit.plans import read_plan
from tests.kit.program import breakglass
from tests.unit.recovery.plans import planned

BARE = """{"partitions": [
  {"topic": "orders", "partition": 1, "designatedLeader": 2}
]}
"""


def plan_file(folder: Path, *evidence: PartitionEvidence, name: str = "plan.json") -> Path:
    path = folder / name
    write_plan(planned(*evidence), path)
    return path


def rewrite(path: Path, change: Callable[[Any], object]) -> None:
    """Let *change* have its way with the document in *path*, as a hand would."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def leaders_in(path: Path) -> dict[str, int]:
    return {str(one): leader for one, leader in read_plan(path).leaders.items()}


def shown(path: Path) -> Any:
    return breakglass("plan", "show", path, "--json").document
