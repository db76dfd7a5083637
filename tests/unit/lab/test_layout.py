"""The layout of a lab: planned, kept in lab.json, read back."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab import process
from breakglass.services.lab.cluster import Cluster, clear_state, new_broker, new_cluster
from breakglass.services.lab.layout import (
    FIRST_CONTROLLER,
    LAYOUT_FILE,
    Address,
    load_layout,
    save_layout,
)


def test_a_layout_comes_back_as_it_was_saved_and_each_listener_has_its_port(tmp_path: Path) -> None:
    layout = new_cluster(
        tmp_path, brokers=2, controllers=1, kafka_version="4.3.1", racks=("a",), log_dirs=2
    )
    ports = [port for node in layout.nodes for port in node.ports.values()]
    assert len(set(ports)) == len(ports) == 5
    added = new_broker(layout, rack="west")
    assert (added.id, added.rack, len(added.log_dirs)) == (3, "west", 2)
    proxied = replace(
        layout.node(2),
        advertised=Address("127.0.0.1", 1),
        controller_links={FIRST_CONTROLLER: Address("127.0.0.1", 2)},
        overrides={"num.io.threads": "2"},
    )
    changed = replace(layout.with_node(proxied), overrides={"a": "b"}, secured=True)
    save_layout(changed)
    assert load_layout(tmp_path) == changed
    with pytest.raises(LabError):
        layout.node(7)


def by_link(name: str) -> Callable[[dict[str, Any], Path], None]:
    def link(document: dict[str, Any], elsewhere: Path) -> None:
        place = Path(document["state_dir"]) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(elsewhere)

    return link


@pytest.mark.parametrize(
    "change",
    [
        lambda found, at: found.update(state_dir=str(at)),
        lambda found, at: found["nodes"][0].update(folder=str(at)),
        lambda found, at: found["nodes"][0].update(log_dirs=[str(at)]),
        lambda found, at: found["nodes"][0].update(folder=found["nodes"][1]["folder"]),
        lambda found, at: found["nodes"][0].update(id="1/../../elsewhere", folder=str(at)),
        lambda found, at: found["nodes"][0].update(
            log_dirs=[found["nodes"][0]["folder"] + "/../../elsewhere"]
        ),
        by_link("broker-1"),
        by_link("broker-1/data-1"),
        by_link("controller-101/metadata"),
        lambda found, at: found.pop("nodes"),
        lambda found, at: found.update(nodes=[1]),
    ],
)
def test_s51_a_lab_has_no_folder_outside_of_its_own(
    tmp_path: Path, change: Callable[[dict[str, Any], Path], None]
) -> None:
    state, elsewhere = tmp_path / "lab", tmp_path / "elsewhere"
    for folder in (state, elsewhere):
        folder.mkdir()
    (elsewhere / "theirs").touch()
    save_layout(new_cluster(state, brokers=1, controllers=1, kafka_version="4.3.1"))
    document = json.loads((state / LAYOUT_FILE).read_text())
    change(document, elsewhere)
    (state / LAYOUT_FILE).write_text(json.dumps(document))
    for end in (load_layout, clear_state, lambda folder: Cluster.load(folder).down()):
        with pytest.raises(LabError):
            end(state)
    assert (elsewhere / "theirs").exists()


def test_s51_a_record_ends_no_process_of_another_folder(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs" / "server.properties", tmp_path / "ours"
    ours.mkdir()
    script = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(theirs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        started = process.seconds_after_boot(psutil.Process(other.pid))
        for name in (process.NODE_RECORD, "link-101.json"):
            record = process.ProcessRecord(other.pid, started, str(theirs))
            process.save_record(record, ours / name)
        assert not process.any_recorded([ours])
        process.end_recorded([ours])
        assert other.poll() is None
        other.communicate(b"")
    assert other.returncode == 0
    process.save_record(process.ProcessRecord(2**70, started, str(theirs)), ours / "link-102.json")
    with pytest.raises(LabError):
        process.any_recorded([ours])


@pytest.mark.parametrize("text", [None, "{", '{"schema": 99}'])
def test_a_folder_without_a_readable_lab_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / LAYOUT_FILE).write_text(text)
    with pytest.raises(LabError):
        load_layout(tmp_path)
