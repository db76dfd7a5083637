"""Fetching uv without pip: only the pinned program for this machine, and no password is shown."""

import hashlib
import io
import platform
import zipfile
from collections.abc import Callable

import pytest

from scripts import uv
from scripts.uv import NoUv, fetch_without_pip

PLATFORM = f"manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}"
OTHERS = ("win_amd64", "manylinux_2_17_s390x", "musllinux_1_1_mips")
ENVIRON = {"UV_DEFAULT_INDEX": "https://x/simple", "PIP_CONFIG_FILE": "/dev/null"}


def serving(*tags: str) -> tuple[Callable[..., bytes], str]:
    """An index with a wheel for each of *tags*, and the SHA-256 of the wheels."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("uv-9.9.9.data/scripts/uv", b"the program")
    wheel = file.getvalue()
    names = [f"uv-9.9.9-py3-none-{tag}.whl" for tag in tags]
    page = "".join(f'<a href="../../files/y?a&amp;b{tag}" >\n {tag}</a>' for tag in names).encode()
    here = f"https://x/files/y?a&b{names[-1]}"
    pages = {"https://x/simple/uv/": page, here: wheel}
    return (lambda address, _: pages[address]), hashlib.sha256(wheel).hexdigest()


def test_an_index_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(NoUv) as caught:
        fetch_without_pip("9", [], {"UV_DEFAULT_INDEX": "http://me:secret@127.0.0.1:1/simple"})
    assert "secret" not in str(caught.value)


def test_the_pinned_program_for_this_machine_is_fetched_and_one_with_another_hash_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, digest = serving(*OTHERS, PLATFORM)
    monkeypatch.setattr(uv, "download", index)
    assert fetch_without_pip("9.9.9", [digest], ENVIRON) == b"the program"
    with pytest.raises(NoUv):
        fetch_without_pip("9.9.9", ["0" * 64], ENVIRON)
    monkeypatch.setattr(uv, "download", serving(*OTHERS)[0])
    with pytest.raises(NoUv):
        fetch_without_pip("9.9.9", [digest], ENVIRON)
