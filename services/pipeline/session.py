"""Spark for one command: prepared early, started once, stopped with the command."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.gateway import Gateway, log_file
from breakglass.services.pipeline.starting import WantedSpark, forget_jvm, start

if TYPE_CHECKING:
    from pyspark import SparkContext

MASTER = "local[*,4]"
"""Every core of this machine, and four attempts of a task: `local[*]` would have one."""
BEHIND_OTHERS = 10
"""The niceness of jobs that share the machine with brokers and clients."""

PARTING_SECONDS = 10.0


class Spark:
    """Spark, started on `begin` or on first use, and stopped when the block ends."""

    def __init__(
        self,
        master: str = MASTER,
        settings: Mapping[str, str] | None = None,
        log: Path | None = None,
        niceness: int = 0,
    ) -> None:
        """Choose where Spark runs, its own *settings*, which override ours, and its driver's *log*.

        *niceness* applies to its JVM and Python workers on this machine.
        """
        self._wanted = WantedSpark(master, settings or {}, log or log_file(), niceness)
        self._starting = threading.Lock()
        self._beginning: threading.Thread | None = None
        self._gateway: Gateway | None = None
        self._context: SparkContext | None = None
        self._error: Exception | None = None
        self._over = False
        self._shared = False
        """Whether Spark was already running, so that its owner stops it."""
        self.seconds_waited = 0.0
        """Seconds that callers have waited for the start."""

    def __enter__(self) -> Spark:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give_up()
        if self._context is not None and not self._shared:
            _stop(self._context)

    def begin(self) -> None:
        """Start Spark and its workers in a thread, because a job will need them soon.

        An error is raised by `context`. Spark's scripts change the environment and stderr of the
        whole process, so where they start Spark, it starts on first use.
        """
        if self._wanted.one_jvm and self._beginning is None and _running() is None:
            self._beginning = threading.Thread(target=self._begin, name="spark", daemon=True)
            self._beginning.start()

    def context(self) -> SparkContext:
        """The context that runs jobs, the same for every thread.

        Raises:
            PipelineError: Spark or Java is missing, or Spark does not start.
        """
        began = time.monotonic()
        context = self._started()
        self.seconds_waited += time.monotonic() - began
        return context

    def _started(self) -> SparkContext:
        with self._starting:
            if self._error is not None:
                raise self._error
            if self._context is None:
                there = _running()
                self._shared = there is not None
                self._context = there or start(self._wanted, self._note)
            return self._context

    def _note(self, gateway: Gateway) -> None:
        self._gateway = gateway
        if self._over:
            gateway.kill()

    def _begin(self) -> None:
        try:
            context = self._started()
        except Exception as error:  # noqa: BLE001 - it is raised where Spark is asked for
            self._error = error
            return
        # A worker spends half a second on imports before its first record.
        with suppress(Exception):
            cores = int(context.defaultParallelism)
            context.parallelize(range(cores), cores).foreachPartition(_nothing)

    def _give_up(self) -> None:
        """Kill a JVM that has not started yet; wait for workers that are starting."""
        self._over = True
        if self._beginning is None or not self._beginning.is_alive():
            return
        if self._context is None and self._gateway is not None:
            self._gateway.kill()
        self._beginning.join(PARTING_SECONDS)
        if self._context is None and self._gateway is not None:
            forget_jvm()


@contextmanager
def jvm_errors(doing: str) -> Iterator[None]:
    """Turn errors of a lost JVM within the block into a PipelineError."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise PipelineError(
            f"{doing}: Spark's JVM does not answer, perhaps it was killed for lack of memory; see "
            "the system's log, then run the command again."
        ) from error


def _nothing(_: object) -> None:
    """A task that only starts a worker."""


def _running() -> SparkContext | None:
    """The context that this process already runs, which PySpark would return again."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _stop(context: SparkContext) -> None:
    """Stop *context*, also if its JVM is already gone."""
    from py4j.protocol import Py4JError

    _end_accumulators(context)
    with suppress(Py4JError, ConnectionError):
        context.stop()


def _end_accumulators(context: SparkContext) -> None:
    """Stop the server of accumulators, which we do not use, in a thread: it takes a second."""
    server, context._accumulatorServer = context._accumulatorServer, None  # type: ignore[assignment]
    threading.Thread(target=server.shutdown, name="accumulators", daemon=True).start()
    # This process may exit before the server does.
    if isinstance(server.server_address, str):
        Path(server.server_address).unlink(missing_ok=True)
