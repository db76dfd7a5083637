"""Which topics, which generation, which settings, what failures mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import DiskFull, PipelineError, StorageError, UsageError
from breakglass.services.pipeline.generations import Generation, following, latest
from breakglass.services.pipeline.restore.options import OPEN, afterwards, during, expired_at_once
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.pipeline.spark_job import job_error
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.summary import SegmentSummary


def test_topics_are_chosen_by_name_and_by_pattern() -> None:
    existing = ["orders", "orders-2", "payments", "__consumer_offsets"]
    assert WantedTopics(("payments",), "orders.*").choose(existing) == [
        "orders",
        "orders-2",
        "payments",
    ]
    assert WantedTopics(pattern=".*").choose(existing) == ["orders", "orders-2", "payments"]
    assert WantedTopics(("__consumer_offsets",)).choose(existing) == ["__consumer_offsets"]


def test_a_topic_that_is_missing_and_a_broken_pattern_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no topic nowhere"):
        WantedTopics(("nowhere",)).choose(["orders"])
    with pytest.raises(UsageError, match="--topics-regex"):
        WantedTopics(pattern="(").choose(["orders"])


def test_the_newest_generation_is_found_by_number(tmp_path: Path) -> None:
    assert latest(LocalStore(tmp_path / "none"), "orders") == Generation("orders")
    for name in ("orders", "orders~2", "orders~10", "orders2~99", "orders~x"):
        (tmp_path / name).mkdir()
    newest = latest(LocalStore(tmp_path), "orders")
    assert newest == Generation("orders", 10)
    assert following(newest, None).name == "orders~11"


def test_settings_are_opened_and_put_back() -> None:
    saved = {"retention.ms": "1000", "segment.bytes": "5", "message.format.version": "2.0"}
    assert during(saved) == {"segment.bytes": "5", **OPEN}
    back, defaults = afterwards(saved)
    assert back == {"retention.ms": "1000"}
    assert set(defaults) == OPEN.keys() - {"retention.ms"}


def segment(max_timestamp: int) -> SegmentSummary:
    return SegmentSummary("s", 0, 100, "", count=3, max_timestamp=max_timestamp)


@pytest.mark.parametrize(
    ("settings", "expired"),
    [
        ({"retention.ms": "400"}, 6),
        ({"retention.ms": "-1"}, 0),
        ({"retention.ms": "400", "cleanup.policy": "compact"}, 0),
        ({"retention.ms": "-1", "retention.bytes": "100"}, 9),
        ({"retention.ms": "-1", "retention.bytes": "150"}, 6),
        ({"retention.ms": "700", "retention.bytes": "250"}, 3),
    ],
)
def test_records_too_old_or_too_many_expire_at_once(settings: dict[str, str], expired: int) -> None:
    """From the oldest on: what lies behind a segment that stays, stays."""
    segments = [segment(at) for at in (10, 500, 900, 100)]
    assert expired_at_once(settings, segments, 1000) == expired


def test_a_full_disk_of_a_worker_is_a_storage_error() -> None:
    text = "PythonException: ...\nOSError: [Errno 28] No space left on device\nmore"
    assert str(job_error(text, "copying topic t")) == (
        "copying topic t: No space left on device; free space or check rights, then run the "
        "command again."
    )


def test_an_error_of_ours_in_a_worker_keeps_its_words() -> None:
    text = (
        "An exception was thrown from the Python worker:\nservices.errors.PipelineError: try it.\n"
    )
    assert str(job_error(text, "restoring topic t")) == "restoring topic t: try it."


@pytest.mark.parametrize(
    ("first", "last", "kind", "words"),
    [
        ("breakglass.services.errors.TimedOut: b1 is slow.",
         "breakglass.services.errors.LogTruncated: it was cut.",
         PipelineError, "it was cut."),
        ("OSError: [Errno 28] No space left on device",
         "breakglass.services.errors.DiskFull: /b: free some.",
         DiskFull, "/b: free some."),
        ("breakglass.services.errors.TimedOut: b1 is slow.",
         "OSError: [Errno 5] Input/output error",
         StorageError, "Input/output error; free space or check rights, then run the command "
         "again."),
    ],
)  # fmt: skip
def test_of_errors_that_led_to_one_another_the_last_one_is_told(
    first: str, last: str, kind: type[Exception], words: str
) -> None:
    text = (
        f"Traceback (most recent call last):\n{first}\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        f"Traceback (most recent call last):\n{last}\n\n\tat org.apache.spark.X.run(X.scala:1)\n"
    )
    error = job_error(text, "copying topic t")
    assert (type(error), str(error)) == (kind, f"copying topic t: {words}")


def test_what_a_worker_has_raised_is_told_and_not_that_it_has() -> None:
    text = (
        "An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "    process()\n"
        "KeyError: 'x'\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 2, in main\n'
        "MemoryError: too much\n"
        "\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)\n"
    )
    assert str(job_error(text, "copying topic t")) == (
        "copying topic t failed in Spark (MemoryError: too much): see its log, then run the "
        "command again."
    )
    assert "(no reason given)" in str(job_error("", "copying topic t"))
