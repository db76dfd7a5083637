"""Kafka's own command-line tools, started as their shell scripts start them."""

from __future__ import annotations

from benchmarks._measure import Program
from breakglass.services.lab.distribution import Distribution
from breakglass.services.lab.tools import tool_command

JVM_OPTIONS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
"""What bin/kafka-run-class.sh gives a tool when the environment says nothing."""


def kafka_tool(kafka: Distribution, script: str, tool: str, *arguments: str) -> Program:
    """The class *tool*, under the name of its *script*, without the script's own work."""
    command = [str(kafka.java), *JVM_OPTIONS, "-cp", kafka.classpath, tool, *arguments]
    return Program(script, command)


def lean_kafka_tool(kafka: Distribution, script: str, tool: str, *arguments: str) -> Program:
    """The same with a JVM set to start as fast as it can: no target, but worth knowing."""
    return Program(f"{script}, leanest JVM", tool_command(kafka, tool, arguments))
