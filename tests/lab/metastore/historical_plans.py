"""The round trip with ksqlDB's own historical plans, from a checkout of confluentinc/ksql.

`python -m tests.lab.metastore.historical_plans CHECKOUT [--most N]` reads every plan.json of its
functional tests, writes the plans as commands to a broker of its own, and goes through the
accident, the restore and the replay. Prints one JSON object; ends with 1 when anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from breakglass.services.lab.cluster import Cluster
from breakglass.services.metastore.command import VERSION, quoted, unquoted
from breakglass.services.metastore.command_id import CommandAction, CommandId, EntityType
from breakglass.services.metastore.records import CommandRecord
from tests.lab.metastore.round_trip import round_trip
from tests.lab.metastore.topics import CommandTopic

PLANS = "ksqldb-functional-tests/src/test/resources/historical_plans"
START_MS = 1_593_540_976_000
KINDS = {
    "createStreamV1": (EntityType.STREAM, CommandAction.CREATE),
    "createTableV1": (EntityType.TABLE, CommandAction.CREATE),
    "registerTypeV1": (EntityType.TYPE, CommandAction.CREATE),
    "dropSourceV1": (EntityType.STREAM, CommandAction.DROP),
    "dropTypeV1": (EntityType.TYPE, CommandAction.DROP),
    "alterSourceV1": (EntityType.STREAM, CommandAction.ALTER),
}


def plans(checkout: Path) -> Iterator[dict[str, Any]]:
    """Every plan, in the order of the files' names."""
    for path in sorted((checkout / PLANS).rglob("plan.json")):
        yield from json.loads(path.read_bytes())["plan"]


def command_of(plan: dict[str, Any], number: int) -> CommandRecord:
    """The record that ksqlDB would have written for *plan*."""
    value = {
        "statement": plan["statementText"],
        "streamsProperties": {},
        "originalProperties": {},
        "plan": plan,
        "version": VERSION,
    }
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return CommandRecord(number, key_of(plan).to_json(), told, START_MS + number)


def key_of(plan: dict[str, Any]) -> CommandId:
    """Names are quoted where they are made."""
    ddl = plan.get("ddlCommand")
    if ddl is None:
        return CommandId(EntityType.STREAM, quoted(plan["queryPlan"]["sink"]), CommandAction.CREATE)
    kind, action = KINDS[ddl["@type"]]
    name = unquoted(ddl.get("sourceName") or ddl.get("typeName"))
    return CommandId(kind, quoted(name) if action is CommandAction.CREATE else name, action)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--most", type=int, default=10_000, help="Commands at most.")
    given = parser.parse_args()
    records = [command_of(plan, at) for at, plan in enumerate(plans(given.checkout))][: given.most]
    if not records:
        print(f"{given.checkout / PLANS} holds no plans: name a checkout of confluentinc/ksql")
        return 2
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster.up(Path(folder) / "lab", brokers=1, overrides={}, tethered=True) as cluster,
    ):
        topic = CommandTopic(cluster, "plans_")
        topic.create()
        done = round_trip(topic, records, Path(folder) / "backups", vanish=False)
    print(json.dumps(asdict(done)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
