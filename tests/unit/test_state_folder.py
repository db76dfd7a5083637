"""The state folder is its owner's alone, whatever it was before."""

import os
import stat
from pathlib import Path

import pytest

from breakglass.services.errors import Refused
from breakglass.services.state_folder import state_folder
from tests.kit.running import running


@pytest.fixture
def folder(user_folders: Path) -> Path:
    return user_folders / "state" / "breakglass"


@pytest.mark.parametrize(
    ("mode", "said"), [(0o700, 0), (0o755, 0), (0o770, 1), (0o777, 1), (0o1777, 1)]
)
def test_s08_a_folder_that_others_could_use_is_made_private_and_what_they_could_write_is_said(
    folder: Path, mode: int, said: int
) -> None:
    assert state_folder() == folder
    folder.mkdir(parents=True)
    folder.chmod(mode)
    told: list[str] = []
    assert state_folder(told.append) == state_folder(told.append) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(told) == said
    assert all(str(folder) in one for one in told)


def test_s08_a_folder_of_another_account_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(Refused, match="XDG_STATE_HOME"):
        state_folder()


def test_s09_under_any_umask_what_a_program_leaves_is_for_its_owner_alone(tmp_path: Path) -> None:
    script = """if True:
        import os, typer
        from breakglass.console.exits import run_app
        app = typer.Typer()
        @app.command()
        def fail():
            open("made", "w").close()
            os.mkdir("sub")
            1 / 0
        raise SystemExit(run_app(app, "fail"))
    """
    shell = 'umask 0; cd "$XDG_STATE_HOME" && exec "$1" -c "$SCRIPT"'
    with running(
        tmp_path, before=("sh", "-c", shell, "sh"), environment={"SCRIPT": script}
    ) as program:
        assert program.wait() == 1
    left = sorted(path.relative_to(tmp_path).parts[-1] for path in tmp_path.rglob("*"))
    assert left[1:] == ["breakglass", "failures", "made", "sub"]
    assert [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o077] == []
