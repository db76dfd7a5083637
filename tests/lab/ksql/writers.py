"""Several writers in processes of their own, and what befalls them."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.kit.waiting import DEADLINE_SECONDS, wait_until


class Writers:
    """Writers under way; one that is killed is followed by another."""

    def __init__(self, words: Sequence[str], count: int) -> None:
        """*words* are where they write to: brokers and service."""
        self._words = words
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self.told: list[dict[str, Any]] = []
        self.killed = 0
        for number in range(count):
            self._start(number)

    def _start(self, number: int) -> None:
        words = [sys.executable, "-m", "tests.lab.ksql.writer_process", *self._words, str(number)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
        self._start(number)

    def stop_one(self) -> None:
        """Stop one, wherever it is, until others have gone on."""
        process = random.choice(self._processes)
        process.send_signal(signal.SIGSTOP)
        self.wait_committed(more=1)
        process.send_signal(signal.SIGCONT)

    def wait_committed(self, more: int) -> None:
        """Wait until so many *more* statements are committed."""
        wanted = len(self.results("committed")) + more
        wait_until(
            lambda: len(self.results("committed")) >= wanted,
            f"{wanted} statements to be committed",
            instead=lambda: self.told[-20:],
        )

    def finish(self) -> None:
        """Have all end after their next statement."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process, listener in zip(self._processes, self._listeners, strict=True):
            process.wait(DEADLINE_SECONDS)
            listener.join(DEADLINE_SECONDS)

    def end(self) -> None:
        """Kill what is left."""
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()

    def results(self, result: str) -> list[dict[str, Any]]:
        """What the writers told of statements that came to this."""
        return [document for document in self.told if document["result"] == result]


@contextmanager
def writing(words: Sequence[str], count: int) -> Iterator[Writers]:
    """So many writers at work."""
    writers = Writers(words, count)
    try:
        yield writers
    finally:
        writers.end()
