"""A member of a group as a process, which can be killed and comes back."""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.kit.waiting import DEADLINE_SECONDS

SECONDS = DEADLINE_SECONDS


class MemberProcess(ABC):
    """Runs from the start on; *launched* says how."""

    process: subprocess.Popen[bytes]

    @abstractmethod
    def launched(self) -> subprocess.Popen[bytes]:
        """The member's new process."""

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.process = self.launched()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(SECONDS)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()


M = TypeVar("M", bound=MemberProcess)


@contextmanager
def until_the_end(members: list[M]) -> Iterator[list[M]]:
    """*members* at work, ended with the block."""
    try:
        yield members
    finally:
        for member in members:
            member.end()
