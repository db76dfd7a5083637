"""What is printed of restored topics: identical only where their backup was whole."""

from __future__ import annotations

import pytest

from breakglass.console.restoring import exit_code, print_restored
from breakglass.services.pipeline.restore.restore import TopicRestored

GAP = "orders-0 36..99"


@pytest.mark.parametrize(
    ("done", "verdict"),
    [
        (TopicRestored("orders", "back", verified=True, gaps=[GAP]), "with gaps"),
        (TopicRestored("orders", "back", gaps=[GAP]), "with gaps, not compared"),
        (TopicRestored("orders", "back", verified=True, salvaged=True), "salvaged"),
        (TopicRestored("orders", "back", verified=True, salvaged=True, gaps=[GAP]), "with gaps"),
        (TopicRestored("orders", "back", verified=False, salvaged=True), "differs"),
    ],
)
def test_a_topic_from_a_damaged_backup_is_not_called_identical(
    done: TopicRestored, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_restored([done], table=True)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].endswith(verdict)
    assert "identical" not in printed.out + printed.err
    assert exit_code([done]) == 1


def test_a_topic_from_a_whole_backup_is(capsys: pytest.CaptureFixture[str]) -> None:
    done = TopicRestored("orders", "back", verified=True)
    print_restored([done], table=True)
    assert capsys.readouterr().out.splitlines()[-1].endswith("identical")
    assert exit_code([done]) == 0


def test_without_a_table_what_failed_is_on_stderr_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = TopicRestored("orders", "back", settings_back=True, verified=False)
    done.declared, done.differences = {"timestamp type": 3}, {"missing": 1_000}
    done.groups_failed = {"tellers": "it has members"}
    print_restored([done], table=False)
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()) == (
        "",
        [
            "back  3 records are not as they were: timestamp type",
            "back  1,000 records missing",
            "back  group tellers was not moved: it has members",
        ],
    )
