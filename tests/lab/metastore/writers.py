"""Several writers in processes of their own, and what befalls them."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

MODULE = "tests.lab.metastore.writer_process"
STOPPED_SECONDS = (0.2, 3.0)


class Writers:
    """Writers under way; one that is killed is followed by another."""

    def __init__(self, words: Sequence[str], count: int, seconds: float, module: str) -> None:
        """*words* are where they write to: brokers and service."""
        self._words, self._module = words, module
        self._ends = time.monotonic() + seconds
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self.told: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.killed = self.stopped = 0
        for number in range(count):
            self._start(number)

    def _start(self, number: int) -> None:
        left = max(self._ends - time.monotonic(), 1.0)
        words = [sys.executable, "-m", self._module, *self._words, str(number), str(left)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        self._processes.append(process)
        self._listeners.append(listener)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                self.told.append(json.loads(line))

    def kill_one(self) -> None:
        """Kill one without warning, and let another take its place."""
        number = random.randrange(len(self._processes))
        self._processes[number].kill()
        self.killed += 1
        if time.monotonic() < self._ends:
            self._start(number)

    def stop_one(self) -> None:
        """Stop one for a while, wherever it is, and let it go on."""
        process = random.choice(self._processes)
        process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(*STOPPED_SECONDS))
        process.send_signal(signal.SIGCONT)
        self.stopped += 1

    def wait(self, seconds: float) -> None:
        """Until all have ended by themselves."""
        for process, listener in zip(self._processes, self._listeners, strict=True):
            process.wait(seconds)
            listener.join(seconds)
            assert process.stderr is not None
            self.errors.append(process.stderr.read())

    def end(self) -> None:
        """Kill what is left."""
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()

    def results(self, result: str) -> list[dict[str, Any]]:
        """What the writers told of statements that came to this."""
        return [document for document in self.told if document["result"] == result]


@contextmanager
def writing(
    words: Sequence[str], count: int, seconds: float, *, module: str = MODULE
) -> Iterator[Writers]:
    """So many writers for so long."""
    writers = Writers(words, count, seconds, module)
    try:
        yield writers
    finally:
        writers.end()
