"""The Containerfile: what is in it, and its steps run in a folder, without a container runtime."""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from breakglass import __version__
from tests.kit.container_steps import Steps
from tests.kit.containerfile import CONTAINERFILE, ROOT, stages
from tests.unit.test_docs import check_line

TEXT = CONTAINERFILE.read_text(encoding="utf-8")
VOLUME = "/var/lib/breakglass"


SECRET = re.compile(r"(?i)(password|passwd|secret|token|api_?key|jaas)")
TAGGED = re.compile(r"[a-z/]+:(?!latest\b)[\w.-]+(@sha256:[0-9a-f]{64})?")


@pytest.mark.parametrize("lock", ["runtime.txt", "runtime-java.txt"])
def test_the_image_has_a_tagged_base_no_secret_and_a_user_without_rights(lock: str) -> None:
    built = stages(TEXT, {"LOCK": lock})
    assert all(TAGGED.match(stage.base) for stage in built)
    steps = [step for stage in built for step in stage.steps]
    assert [step for step in steps if SECRET.search(step.rest)] == []
    listed = ["git", "ls-files", "--error-unmatch", "--"]
    for step in steps:
        origin, sources, _ = step.copied() if step.word == "COPY" else (None, [], "")
        if origin is None:
            subprocess.run([*listed, *sources], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    words = [step.word for step in built[-1].steps]
    user = built[-1].last("USER")
    assert user is not None
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user.rest)
    assert words.index("USER") < words.index("ENTRYPOINT")


def test_every_package_is_installed_by_its_hash() -> None:
    installs = [
        step.command()
        for stage in stages(TEXT)
        for step in stage.steps
        if step.word == "RUN" and "install" in step.command() and "pip" in step.command()
    ]
    assert len(installs) == 3
    assert [one for one in installs if not {"--require-hashes", "--no-index"} & {*one}] == []


def test_the_python_of_the_recipe_is_one_that_breakglass_runs_on() -> None:
    version = re.match(r"python:(\d+\.\d+)-slim", stages(TEXT)[-1].base)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


PAGES = [ROOT / "docs" / "kubernetes.md", *(ROOT / "docs" / "monitoring").glob("*.yaml")]


def test_the_volume_the_manifests_and_the_page_name_the_same_folder() -> None:
    page = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    volume = stages(TEXT)[-1].last("VOLUME")
    assert volume is not None
    assert volume.command() == [VOLUME]
    assert f"mountPath: {VOLUME}" in page
    user = stages(TEXT)[-1].last("USER")
    assert user is not None
    assert f"fsGroup: {user.rest.partition(':')[2]}" in page


def test_the_commands_of_the_manifests_exist() -> None:
    page = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    given = [shlex.join(json.loads(words)) for words in re.findall(r"args: (\[.*\])", page)]
    given += re.findall(r"exec -it breakglass -- (?:env \S+ )?breakglass (.*)", page)
    assert len(given) == 3
    for words in given:
        check_line(f"breakglass {words}")


def files_outside_the_volume(root: Path) -> set[Path]:
    """Return every file below *root* that a read-only file system would keep as it is."""
    return {path for path in root.rglob("*") if not path.is_relative_to(f"{root}{VOLUME}")}


@pytest.mark.slow
def test_the_steps_run_and_the_image_starts_and_writes_to_its_volume_alone(tmp_path: Path) -> None:
    built = stages(TEXT)
    steps = Steps(tmp_path)
    steps.build(built)
    entry = built[-1].last("ENTRYPOINT")
    assert entry is not None
    before = files_outside_the_volume(steps.root)

    version = steps.run(*entry.command(), "--version")
    assert version.stdout.split()[-1] == __version__, version.stderr
    assert "breakglass doctor [OPTIONS]" in steps.run(*entry.command(), "doctor", "--help").stdout
    doctor = steps.run(*entry.command(), "doctor", "--json")
    assert steps.at(VOLUME) in json.dumps(json.loads(doctor.stdout)), doctor.stdout
    exporter = steps.run(
        *entry.command(), "serve", "metrics", "--bootstrap-server", "127.0.0.1:9", "--once"
    )
    assert (exporter.returncode, "breakglass_build_info" in exporter.stdout) == (1, True)

    assert files_outside_the_volume(steps.root) == before
    assert list((steps.root / "opt/breakglass/share").rglob("breakglass.1")), "no man page"
    assert not (steps.root / "src").exists(), "the sources are in the image"
