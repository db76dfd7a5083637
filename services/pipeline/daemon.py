"""The process that Spark forks its Python workers from: what they need is imported here, once.

Spark's own daemon imports nothing, so each worker spends a second and more of processor time on
the same modules before its first record. Arrow and NumPy bear being forked; NumPy's threads,
which nothing here needs, are left out.
"""

from __future__ import annotations

import os
from importlib import import_module

WANTED = (
    "pyspark.worker",
    "pyarrow",
    "services.pipeline.batches.tasks",
    "services.pipeline.comparison",
    "services.pipeline.part_writer",
    "services.pipeline.restore.jobs",
)


def main() -> None:
    """Be Spark's daemon, with everything imported."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in WANTED:
        import_module(name)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
