"""What is printed of restored topics: identical only where their backup was whole."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from breakglass.console.restoring import exit_code, print_restored
from breakglass.services.pipeline.acts.restore import outcomes_of
from breakglass.services.pipeline.restore.options import BELOW, RestorePlan
from breakglass.services.pipeline.restore.restore import TopicRestored

GAP = "orders-0 36..99"
LEFT = {BELOW: 2}
DOUBTS: tuple[dict[str, Any], ...] = ({"vouched": False}, {"unexplained": 3})
TOPIC = SimpleNamespace(target="back", partitions=[SimpleNamespace(partition=0, records=8)])
PLAN = cast(RestorePlan, SimpleNamespace(topics=[TOPIC]))


@pytest.mark.parametrize(
    ("done", "verdict"),
    [
        (TopicRestored("orders", "back", verified=True, gaps=[GAP]), "with gaps"),
        (TopicRestored("orders", "back", gaps=[GAP]), "with gaps, not compared"),
        (TopicRestored("orders", "back", verified=True, salvaged=True), "salvaged"),
        (TopicRestored("orders", "back", verified=True, salvaged=True, gaps=[GAP]), "with gaps"),
        (TopicRestored("orders", "back", verified=False, salvaged=True), "differs"),
        (TopicRestored("orders", "back", verified=True, left_out=LEFT, elsewhere="-"), "in part"),
    ],
)
def test_a_topic_from_a_damaged_backup_is_not_called_identical(
    done: TopicRestored, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_restored([done], table=True)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].endswith(verdict)
    (outcome,) = outcomes_of(done, PLAN)
    if not done.elsewhere:
        assert "identical" not in outcome.text
    assert "identical" not in printed.out + printed.err
    assert exit_code([done]) == 1


@pytest.mark.parametrize(
    ("doubt", "verdict"), [({}, "identical"), *[(one, "not proved") for one in DOUBTS]]
)
def test_a_topic_from_a_whole_backup_is_if_a_manifest_vouches_for_all_of_it(
    capsys: pytest.CaptureFixture[str], doubt: dict[str, Any], verdict: str
) -> None:
    done = replace(TopicRestored("orders", "back", verified=True), **doubt)
    print_restored([done], table=True)
    assert capsys.readouterr().out.splitlines()[-1].endswith(verdict)
    (outcome,) = outcomes_of(done, PLAN)
    assert (outcome.text.endswith(verdict), exit_code([done])) == (True, 0)


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
