"""Let the original's own reader classes read a backup of ours, and compare every byte.

``python -m benchmarks._original FOLDER/TOPIC``: the readers of itadventurer/kafka-backup read each
partition by its indexes, and write every record again; that has to be what lies in the records
files.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import PartitionFiles, listing, records_name
from breakglass.services.topic_backup.segment_reader import CHUNK_BYTES, FIRST_POSITION
from tests.lab.backup.original import compiled

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


def main(topic: Path) -> int:
    """Compare; returns the exit code."""
    folder = LocalFolder(topic)
    partitions = listing(folder.names())
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        counts = read_by_original(topic, partitions, place)
        differing = 0
        for number, files in partitions.items():
            ours, theirs = stored_digest(topic, files), file_digest(place / str(number))
            same = "identical" if ours == theirs else "DIFFERENT"
            differing += ours != theirs
            print(f"{topic.name}-{number}: {counts[number]:,} records read, {same}: {theirs}")
    return int(differing > 0)


def read_by_original(
    topic: Path, partitions: dict[int, PartitionFiles], place: Path
) -> dict[int, int]:
    """Records of each partition as the original counts them; writes them again to *place*."""
    reader = place / "ReadByOriginal.java"
    reader.write_text(READER, encoding="utf-8")
    original = compiled(place / "classes", reader)
    numbers = [str(number) for number in partitions]
    command = [str(original.kafka.java), "-cp", original.classpath, reader.stem]
    command += [str(topic), str(place), *numbers]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {int(number): int(count) for number, count in map(str.split, answer.splitlines())}


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
    sys.exit(main(Path(sys.argv[1])))
