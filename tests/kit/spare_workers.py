"""Lets two more workers run unit tests while the other four wait for brokers.

Tests of brokers and of Spark leave a third of two cores idle. The spare workers use that third:
they take tests from the end of the order, where unit tests are, run at a lower priority, and take
no tests that share brokers.
"""

from __future__ import annotations

import os

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

LAB_WORKERS = 4
"""How many workers at most start brokers at the same time on two cores."""
PRIORITY = 5
"""The nice value of a spare worker: a third of the weight of a broker."""


def is_spare(worker: str, count: int) -> bool:
    """Whether *worker*, such as ``gw4``, is spare among *count*; a replacement is not."""
    return LAB_WORKERS <= int(worker.removeprefix("gw")) < count


def lower_priority_of_spare() -> None:
    """Lower the priority of this process if it is a spare worker."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and is_spare(worker, int(os.environ["PYTEST_XDIST_WORKER_COUNT"])):
        os.nice(PRIORITY)


class SpareWorkersScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """Gives groups and tests in order to all workers but the spare ones, which begin at the end."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._is_spare(node):
            super()._assign_work_unit(node)
        elif "::" not in (last := next(reversed(self.workqueue))):
            # The name of a group, not of a test: its tests share brokers.
            node.shutdown()
        else:
            self.workqueue.move_to_end(last, last=False)
            super()._assign_work_unit(node)

    def _is_spare(self, node: WorkerController) -> bool:
        return is_spare(node.gateway.id, self.numnodes)
