"""What a release writes: the changelog's section, the version, checksums; and when it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import release
from scripts.release import CannotRelease, checksums, cut

CHANGELOG = """# Changelog

## [Unreleased]

To become 0.2.0.

### Added

- A thing.

## [0.1.0] - 2026-01-02

- Older.
"""
CUT = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-03-04

### Added

- A thing.

## [0.1.0] - 2026-01-02

- Older.
"""


def test_the_unreleased_section_becomes_that_of_the_version() -> None:
    assert cut(CHANGELOG, "0.2.0", "2026-03-04") == CUT


@pytest.mark.parametrize(
    ("changelog", "version"),
    [(CUT, "0.3.0"), (CHANGELOG, "0.1.0"), ("# Changelog\n", "0.2.0")],
    ids=["nothing is unreleased", "the version was released before", "there is no section"],
)
def test_what_cannot_be_cut_is_refused(changelog: str, version: str) -> None:
    with pytest.raises(CannotRelease):
        cut(changelog, version, "2026-03-04")


def test_sha256sum_reads_the_checksums(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    (tmp_path / release.SUMS).write_text(checksums(tmp_path))
    subprocess.run(["sha256sum", "-c", release.SUMS], cwd=tmp_path, check=True)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    monkeypatch.setattr(release, "ROOT", root)
    (root / "file").write_text("1")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "One")):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def test_no_release_is_made_of_changes_over_an_older_one_or_of_no_version(
    checkout: Path, tmp_path: Path
) -> None:
    with pytest.raises(CannotRelease):
        release.release("v1", tmp_path / "dist")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "old.whl").touch()
    with pytest.raises(CannotRelease):
        release.release("0.2.0", tmp_path / "old")
    (checkout / "file").write_text("2")
    with pytest.raises(CannotRelease):
        release.release("0.2.0", tmp_path / "dist")
