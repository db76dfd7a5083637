"""What a release writes: the changelog's section, the version, checksums; and when it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import release
from scripts.release import CannotRelease, checksums, cut, with_version

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


def test_the_first_release_has_no_older_section() -> None:
    first = CHANGELOG.partition("\n## [0.1.0]")[0]
    assert cut(first, "0.2.0", "2026-03-04") == CUT.partition("\n## [0.1.0]")[0]


@pytest.mark.parametrize(
    ("changelog", "version", "why"),
    [
        (CUT, "0.3.0", "nothing under Unreleased"),
        (CHANGELOG, "0.1.0", "a section of 0.1.0 already"),
        ("# Changelog\n", "0.2.0", "nothing under Unreleased"),
    ],
)
def test_what_cannot_be_cut_is_refused(changelog: str, version: str, why: str) -> None:
    with pytest.raises(CannotRelease, match=why):
        cut(changelog, version, "2026-03-04")


def test_the_package_gets_the_version() -> None:
    assert with_version('"""A."""\n__version__ = "0.1.0"\n', "0.2.0rc1") == (
        '"""A."""\n__version__ = "0.2.0rc1"\n'
    )


def test_sha256sum_reads_the_checksums(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    (tmp_path / "b.tar.gz").write_bytes(b"sdist")
    (tmp_path / release.SUMS).write_text(checksums(tmp_path))

    done = subprocess.run(["sha256sum", "-c", release.SUMS], cwd=tmp_path, capture_output=True)

    assert done.returncode == 0
    assert done.stdout.count(b": OK") == 2


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


def test_a_checkout_with_changes_is_refused(checkout: Path, tmp_path: Path) -> None:
    (checkout / "file").write_text("2")
    with pytest.raises(CannotRelease, match="commit them first"):
        release.release("0.2.0", tmp_path / "dist")


def test_a_folder_with_an_older_release_is_refused(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "old.whl").touch()
    with pytest.raises(CannotRelease, match="is not empty"):
        release.release("0.2.0", tmp_path / "dist")


def test_what_is_no_version_is_refused(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotRelease, match="is no version"):
        release.release("v1", tmp_path / "dist")
