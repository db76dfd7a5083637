"""The command line and the log configuration of one broker or controller process."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.lab.distribution import Distribution
from breakglass.services.lab.layout import NodeLayout

ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}
"""glibc otherwise keeps an arena for each core, some 20 MB a node."""
HEAP = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC")
"""A class data archive holds for one kind of heap."""
LOG4J2 = """\
status=error
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""
RELOAD4J = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def log_file(node: NodeLayout) -> Path:
    """Where the node writes its log."""
    return node.folder / "server.log"


def scratch_folder(node: NodeLayout) -> Path:
    """Where the JVM unpacks its native libraries."""
    return node.folder / "scratch"


def logging_configuration(kafka: Distribution, node: NodeLayout) -> str:
    """Kafka 4 logs by log4j 2, Kafka 3 by reload4j."""
    template = LOG4J2 if kafka.major >= 4 else RELOAD4J
    return template.format(log=log_file(node))


def node_command(kafka: Distribution, node: NodeLayout) -> list[str]:
    """The command line of the process; its last word is the node's properties file."""
    logging = node.folder / "logging.properties"
    option = "log4j2.configurationFile" if kafka.major >= 4 else "log4j.configuration"
    return [
        str(kafka.java),
        *kafka.node_options,
        *HEAP,
        "-Xss512k",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={node.folder / 'java-error.log'}",
        f"-Djava.io.tmpdir={scratch_folder(node)}",
        "-Djava.net.preferIPv4Stack=true",
        f"-D{option}=file:{logging}",
        "-cp",
        kafka.classpath,
        "kafka.Kafka",
        str(node.properties_file),
    ]
