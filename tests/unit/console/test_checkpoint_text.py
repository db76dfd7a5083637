"""Options that are typed on a screen are read and refused as the commands read and refuse them."""

import pytest

from breakglass.console.checkpoint_text import CommandText
from breakglass.services.errors import UsageError

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
