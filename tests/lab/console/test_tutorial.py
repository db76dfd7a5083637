"""Every command of the tutorial prints what the tutorial says; the shell completes topics."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from tests.kit.program import offered
from tests.kit.waiting import DEADLINE_SECONDS, wait_until

PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"
FENCE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
END = "end-of-step"


@dataclass(frozen=True)
class Step:
    """A command, and the lines that it prints among others; `…` stands for anything."""

    command: str
    expected: tuple[str, ...]


def steps(text: str) -> Iterator[Step]:
    """The steps of a page, in order."""
    for fence in FENCE.findall(text):
        for part in fence.removeprefix("$ ").split("\n$ "):
            command, *expected = part.strip().splitlines()
            yield Step(command, tuple(expected))


def missing(step: Step, printed: str) -> list[str]:
    """The lines of *step* that are not in what was *printed*, whatever its columns' widths."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    patterns = {
        line: ".*".join(re.escape(part.strip()) for part in line.split("…"))
        for line in step.expected
    }
    return [
        line
        for line, pattern in patterns.items()
        if not any(re.match(pattern, shown) for shown in lines)
    ]


class Shell:
    """A shell that lasts from step to step, with a home of its own."""

    def __init__(self, home: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        # What was downloaded for this user is not downloaded again.
        caches = {
            "XDG_CACHE_HOME": str(Path.home() / ".cache"),
            "M2_REPO": os.environ.get("M2_REPO") or str(Path.home() / ".m2" / "repository"),
        }
        env = {"LANG": "C.UTF-8", **os.environ, **caches, "HOME": str(home), "PATH": path}
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            env.pop(name, None)
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=home,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """The exit code of *command*, and all that it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command} </dev/null\necho {END} $?\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(END):
                return int(line.split()[1]), "".join(printed)
            printed.append(line)
        raise AssertionError(f"the shell ended in {command}: {''.join(printed)}")

    def close(self) -> None:
        """End the lab, if the tutorial did not come so far, and the shell."""
        self.run("breakglass lab down || true")
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(DEADLINE_SECONDS)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.close()


def test_each_command_of_the_tutorial_prints_what_it_says(shell: Shell) -> None:
    done = list(steps(PAGE.read_text(encoding="utf-8")))
    assert len(done) > 20
    for step in done:
        code, printed = shell.run(step.command)
        assert code == 0, f"{step.command} ended with {code}:\n{printed}"
        assert missing(step, printed) == [], f"{step.command} printed:\n{printed}"


def test_topics_of_the_cluster_are_offered_one_after_the_other(three_brokers: Cluster) -> None:
    for topic in ("offered-one", "offered-two"):
        create_topic(three_brokers, topic, [[1, 2, 3]])
    line = f"breakglass triage --bootstrap-server {three_brokers.bootstrap_servers} --topics "
    assert offered_in_time(f"{line}offered-") == ["offered-one", "offered-two"]
    assert offered_in_time(f"{line}offered-one,off") == ["offered-one,offered-two"]


def offered_in_time(line: str) -> list[str]:
    """What is first offered: brokers of a busy machine may answer too late for a shell."""
    found: list[str] = []

    def is_offered() -> bool:
        found.extend(offered(line))
        return bool(found)

    wait_until(is_offered, "topics that are offered in time")
    return found
