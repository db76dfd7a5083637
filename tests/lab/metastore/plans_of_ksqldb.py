"""Compares our plans with ksqlDB's own, from a checkout of confluentinc/ksql.

`python -m tests.lab.metastore.plans_of_ksqldb CHECKOUT` plans every CREATE, and every DROP, without
a query in the plan.json of its functional tests, after the statements before it in the file.
Prints one JSON object; ends with 1 when a plan of a known form differs, and shows it. The forms of
older servers, and plans that a server's setting decides, are counted apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from breakglass.services.metastore.statements.parsing import parse
from breakglass.services.metastore.statements.plans import ddl_of
from breakglass.services.metastore.statements.statement import InvalidStatement
from tests.lab.metastore.historical_plans import PLANS

DEFAULTS: tuple[object, ...] = (None, False, "CHANGES")
"""What ksqlDB reads where a field is absent; empty lists and objects, too."""


def effective(value: Any) -> Any:
    """*value* without the fields that have their default."""
    if isinstance(value, dict):
        fields = {name: effective(of) for name, of in value.items()}
        return {name: of for name, of in fields.items() if of not in (*DEFAULTS, [], {})}
    return value


def compared(checkout: Path) -> Iterator[tuple[str, str, Any, Any]]:
    """Each statement with its release, ksqlDB's plan, and ours, or the reason why there is none."""
    for path in sorted((checkout / PLANS).rglob("plan.json")):
        types: dict[str, str] = {}
        for plan in json.loads(path.read_bytes())["plan"]:
            theirs = plan.get("ddlCommand")
            if theirs is None or plan.get("queryPlan") is not None:
                continue
            try:
                ours: Any = ddl_of(parse(plan["statementText"]), types)
            except InvalidStatement as error:
                ours = error.placed(plan["statementText"])
            yield path.parent.name.partition("_")[0], plan["statementText"], theirs, ours
            if theirs["@type"] == "registerTypeV1":
                types[theirs["typeName"]] = theirs["type"]


def another_form(release: str, text: str, theirs: dict[str, Any]) -> str:
    """Why a server of today makes another plan; empty where it makes this one."""
    formats, schema = theirs.get("formats", {}), theirs.get("schema", "")
    if "keyField" in theirs or (schema.startswith("`ROWKEY`") and "ROWKEY" not in text):
        return "ROWKEY is added"
    if formats.get("options") or (release < "6.1" and "WRAP_SINGLE_VALUE" in text):
        return "wrapping is an option"
    properties = json.dumps([formats.get("keyFormat"), formats.get("valueFormat")])
    if "_SCHEMA_ID" in text and "schemaId" not in properties:
        return "schema ids are not kept"
    if '"PROTOBUF"' in properties and "unwrapPrimitives" not in properties:
        return "protobuf keeps primitives wrapped"
    if "ROWPARTITION" in schema:
        return "ROWPARTITION is a name like others"
    if "valueFeatures" in formats and "WRAP_SINGLE_VALUE" not in text:
        return "a server's setting decides"
    return ""


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--shown", type=int, default=10, help="Differences that are printed.")
    given = parser.parse_args()
    equal: Counter[str] = Counter()
    differ: Counter[str] = Counter()
    older: Counter[str] = Counter()
    for release, text, theirs, ours in compared(given.checkout):
        if effective(theirs) == effective(ours):
            equal[release] += 1
            continue
        why = another_form(release, text, theirs)
        if why:
            older[why] += 1
            continue
        differ[release] += 1
        if differ.total() <= given.shown:
            print(json.dumps({"statement": text, "ksqlDB": theirs, "ours": ours}), file=sys.stderr)
    print(json.dumps({"equal": dict(equal), "other forms": dict(older), "differ": dict(differ)}))
    return 1 if differ or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
