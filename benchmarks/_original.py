"""Let the original's own reader classes read a backup of ours, and compare every byte.

``python -m benchmarks._original CHECKOUT FOLDER/TOPIC`` takes a checkout of
itadventurer/kafka-backup. Its readers are compiled with Eclipse's compiler, read each partition by
its indexes, and write every record again; that has to be what lies in the records files.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from services.pipeline.jars import fetched
from services.pipeline.java import find_java
from services.topic_backup.folder import LocalFolder
from services.topic_backup.layout import PartitionFiles, listing, records_name
from services.topic_backup.segment_reader import CHUNK_BYTES, FIRST_POSITION

COMPILER = "org.eclipse.jdt:ecj:3.38.0"
LIBRARIES = (
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.kafka:connect-api:3.9.2",
    "org.slf4j:slf4j-api:2.0.17",
)
PACKAGES = ("common/partition", "common/record", "common/segment")
SOURCES = Path("src/main/java/de/azapps/kafkabackup")
ANNOTATION = """\
package edu.umd.cs.findbugs.annotations;
public @interface SuppressFBWarnings { String[] value() default {}; String justification() default ""; }
"""  # noqa: E501
READER = """\
import de.azapps.kafkabackup.common.partition.PartitionReader;
import de.azapps.kafkabackup.common.record.RecordSerde;
import java.io.BufferedOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

public class ReadByOriginal {
    public static void main(String[] arguments) throws Exception {
        Path topic = Paths.get(arguments[0]);
        for (int at = 2; at < arguments.length; at++) {
            int partition = Integer.parseInt(arguments[at]);
            Path target = Paths.get(arguments[1], arguments[at]);
            PartitionReader reader =
                new PartitionReader(topic.getFileName().toString(), partition, topic);
            long count = 0;
            try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(target))) {
                while (reader.hasMoreData()) {
                    RecordSerde.write(out, reader.read());
                    count++;
                }
            }
            System.out.println(partition + " " + count);
        }
    }
}
"""


def main(checkout: Path, topic: Path) -> int:
    """Compare; returns the exit code."""
    folder = LocalFolder(topic)
    partitions = listing(folder.names())
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        counts = read_by_original(checkout, topic, partitions, place)
        differing = 0
        for number, files in partitions.items():
            ours, theirs = stored_digest(topic, files), file_digest(place / str(number))
            same = "identical" if ours == theirs else "DIFFERENT"
            differing += ours != theirs
            print(f"{topic.name}-{number}: {counts[number]:,} records read, {same}: {theirs}")
    return int(differing > 0)


def read_by_original(
    checkout: Path, topic: Path, partitions: dict[int, PartitionFiles], place: Path
) -> dict[int, int]:
    """Records of each partition as the original counts them; writes them again to *place*."""
    jars = list(fetched(*LIBRARIES))
    classes = compiled(checkout, place / "classes", jars)
    path = os.pathsep.join(map(str, [classes, *jars]))
    numbers = [str(number) for number in partitions]
    command = [str(find_java()), "-cp", path, "ReadByOriginal", str(topic), str(place), *numbers]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {int(number): int(count) for number, count in map(str.split, answer.splitlines())}


def compiled(checkout: Path, target: Path, jars: list[Path]) -> Path:
    """The original's readers, and ours around them, as classes in *target*."""
    annotation = target / "edu/umd/cs/findbugs/annotations/SuppressFBWarnings.java"
    annotation.parent.mkdir(parents=True)
    annotation.write_text(ANNOTATION, encoding="utf-8")
    reader = target / "ReadByOriginal.java"
    reader.write_text(READER, encoding="utf-8")
    sources = [one for package in PACKAGES for one in (checkout / SOURCES / package).glob("*.java")]
    (compiler,) = fetched(COMPILER)
    path = os.pathsep.join(map(str, jars))
    options = ["-17", "-nowarn", "-proc:none", "-cp", path, "-d", str(target)]
    files = [str(one) for one in (annotation, reader, *sources)]
    subprocess.run([str(find_java()), "-jar", str(compiler), *options, *files], check=True)
    return target


def stored_digest(topic: Path, files: PartitionFiles) -> str:
    """SHA-256 of the records files of a partition, one behind the other, without magic bytes."""
    digest = hashlib.sha256()
    for segment in files.segments:
        for chunk in _chunks(topic / records_name(segment.prefix), FIRST_POSITION):
            digest.update(chunk)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    for chunk in _chunks(path, 0):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: Path, start: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
