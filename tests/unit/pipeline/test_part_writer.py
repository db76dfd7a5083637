"""What a task is made of, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from breakglass.services.topic_backup.record import encode
from tests.unit.topic_backup.shapes import plain

ROOT = Path(__file__).parents[3]
RECORD = encode(plain(7))


def test_a_task_brings_no_pandas(tmp_path: Path) -> None:
    """Which would cost each of Spark's Python workers more than a second."""
    script = f"""
import sys
from importlib import import_module
from pathlib import Path
import numpy as np
from breakglass.services.pipeline.daemon import WANTED
for name in WANTED:
    import_module(name)
from breakglass.services.pipeline.comparison import StretchComparison
from breakglass.services.pipeline.part_writer import PartTarget, PartTask, RecordChunk
from breakglass.services.topic_backup.folder import LocalFolder
record = bytes.fromhex({RECORD.hex()!r})
longs = (np.array([7]), np.array([0]), np.array([0, len(record)]))
chunk = RecordChunk(3, *longs, memoryview(record))
with PartTask(PartTarget(LocalFolder(Path({str(tmp_path)!r})), "run", 1000), 0) as task:
    (part,) = [*task.take(chunk), *task.finish()]
comparison = StretchComparison(3, ())
comparison.take(chunk)
print(part.to_json(), comparison.found.counts, "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"count": 1' in done.stdout
    assert "{'extra': 1}" in done.stdout
    assert done.stdout.endswith(" False\n")
