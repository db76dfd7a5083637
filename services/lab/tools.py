"""Kafka's own command-line tools, run from the lab's jars: the peer that ours is measured by."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from breakglass.services.errors import LabError
from breakglass.services.lab.distribution import Distribution

TOOL_SECONDS = 300
TOPICS = "org.apache.kafka.tools.TopicCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool said."""

    tool: str
    exit_code: int
    stdout: str
    stderr: str

    def check(self) -> ToolResult:
        """The same result, when the tool succeeded.

        Raises:
            LabError: its exit code is not 0.
        """
        if self.exit_code:
            said = (self.stderr.strip() or self.stdout.strip())[-2000:]
            raise LabError(f"{self.tool} ended with {self.exit_code}: {said}")
        return self


def tool_command(kafka: Distribution, tool: str, arguments: Sequence[str]) -> list[str]:
    """The command line that runs the class *tool*."""
    return [
        str(kafka.java),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-cp",
        kafka.classpath,
        tool,
        *arguments,
    ]


def run_tool(
    kafka: Distribution, tool: str, arguments: Sequence[str], *, timeout: float = TOOL_SECONDS
) -> ToolResult:
    """Run *tool* to its end.

    Raises:
        LabError: it did not end within *timeout* seconds, or could not be started.
    """
    command = tool_command(kafka, tool, arguments)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{tool} did not end within {timeout:g} s: try again.") from None
    except OSError as error:
        raise LabError(f"{command[0]} cannot be run ({error}): check JAVA_HOME.") from error
    return ToolResult(tool, done.returncode, done.stdout, done.stderr)
