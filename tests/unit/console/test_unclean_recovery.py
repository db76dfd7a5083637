"""`unclean-recovery` against fake brokers: the file of leaders that it writes."""

from pathlib import Path

from breakglass.services.recovery.plan.partition_file import read_elections
from tests.unit.console.fakes import Fakes


def test_a_file_of_leaders_is_written_if_its_reader_takes_it(broken: Fakes, tmp_path: Path) -> None:
    named = ("--recovery-duration-ms", "5000", "--manual-recovery-output-file")
    asked = ("unclean-recovery", "--all-offline-partitions", *named)
    empty, whole = tmp_path / "empty.json", tmp_path / "whole.json"
    ended = broken.run(*asked, empty)
    assert (ended.code, empty.exists()) == (0, False)
    assert f"{empty} was not written" in ended.err
    broken.offline("orders", 3)
    broken.run(*asked, whole, "--gone", 3)
    assert len(read_elections(whole)) == 3
