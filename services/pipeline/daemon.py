"""The process from which Spark forks its Python workers; it imports their modules once.

Spark's own daemon imports nothing, so each worker needs more than a second of processor time for
the same imports before its first record. Arrow and NumPy survive a fork; NumPy's threads, which
are not needed, are disabled.
"""

from __future__ import annotations

import os
from importlib import import_module

WANTED = (
    "pyspark.worker",
    "pyarrow",
    "breakglass.services.pipeline.batches.tasks",
    "breakglass.services.pipeline.verify",
    "breakglass.services.pipeline.part_writer",
    "breakglass.services.pipeline.restore.producing",
)


def main() -> None:
    """Import the modules, then run Spark's daemon."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in WANTED:
        import_module(name)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
