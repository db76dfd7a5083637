"""Options that are typed on a screen are read and refused as the commands read and refuse them."""

import pytest

from breakglass.console.checkpoint_text import CommandText
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.protocol.lineage import GroupFlow
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.wording import RestoreAsked
from breakglass.services.errors import UsageError


def test_everything_that_can_be_asked_of_a_take_is_read() -> None:
    text = (
        "--topics a,b --group 'x y=exactly-once' --group z=at-least-once --level verified "
        "--max-rate 20MB/s --drain 5 --control-topic c"
    )
    groups = {"x y": GroupPolicy.EXACTLY_ONCE, "z": GroupPolicy.AT_LEAST_ONCE}
    how = CopySettings(drain_seconds=5.0, rate=20e6, control_topic="c")
    assert CommandText().take(text) == WantedCheckpoint(("a", "b"), groups, Level.VERIFIED, how=how)
    assert CommandText().take("--topics a") == WantedCheckpoint(("a",))
    flow = GroupFlow("g1", ("a", "c"), ("b",))
    found = CommandText().take("--topics a,b,c --external c --flow 'g1:a,c>b' --group g2=reader")
    assert (found.external, found.flows, found.level) == (("c",), (flow,), None)
    assert found.groups == {"g1": GroupPolicy.AT_LEAST_ONCE, "g2": GroupPolicy.READER}


TAKES = (
    *("", "--topics ''", "--topics a b", "--topics 'a", "--topics"),
    *(
        f"--topics a {more}"
        for more in (
            *("--group b", "--flow g1:a", "--flow 'g1:>a'", "--flow 'g1:a>?'"),
            *("--flow 'g1:a>b' --flow 'g1:a>c'", "--level strict", "--max-rate fast"),
            *("--drain 0", "--drain soon", "--hold-retention", "--help", "-h"),
        )
    ),
)


@pytest.mark.parametrize("text", TAKES)
def test_what_cannot_be_read_is_refused_and_nothing_is_printed(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError):
        CommandText().take(text)
    assert capsys.readouterr() == ("", "")


def test_everything_that_can_be_asked_of_a_restore_is_read() -> None:
    found = CommandText().restore("--map a=b --map c=d --suffix -2 --resume --control-topic e")
    assert found == RestoreAsked({"a": "b", "c": "d"}, "-2", resume=True, control_topic="e")
    assert CommandText().restore("") == RestoreAsked()
