"""A recording becomes a picture that moves, shows what the terminal showed, and does no more."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from scripts import cast_svg
from scripts.cast_svg import Cast, drawn, frames
from scripts.recording import LONGEST_PAUSE, cast_of, cut

SVG = "{http://www.w3.org/2000/svg}"
HARMLESS = {f"{SVG}{name}" for name in ("svg", "style", "defs", "g", "rect", "text", "use")}
LARGEST = 500_000


def cast(*events: tuple[float, str]) -> Cast:
    header = {"version": 2, "width": 20, "height": 3}
    lines = [header, *([at, "o", data] for at, data in events)]
    return Cast.read("\n".join(map(json.dumps, lines)))


def shown(frame: cast_svg.Frame) -> list[str]:
    return ["".join(cell.data for cell in row).rstrip() for row in frame.rows]


def test_each_state_that_lasts_is_a_frame() -> None:
    film = list(frames(cast((0, "a"), (1, "b"), (1.01, "c"), (2, "\r\nd"), (3, ""))))
    assert [(frame.at, shown(frame)[:2]) for frame in film] == [
        (0, ["a", ""]),
        (1.01, ["abc", ""]),
        (2, ["abc", "d"]),
    ]


def test_what_a_full_screen_program_leaves_is_the_screen_before_it() -> None:
    film = list(frames(cast((0, "before"), (1, "\x1b[?1049h\x1b[Hconsole"), (2, "\x1b[?1049l!"))))
    assert [shown(frame)[0] for frame in film] == ["before", "console", "before!"]


def test_a_row_is_drawn_once_however_often_it_is_shown() -> None:
    picture = drawn(cast((0, "same\r\n"), (1, "other"), (2, "\x1b[1;1Hsame\r\n\x1b[Klast")))
    assert picture.count(">same</text>") == 1
    assert picture.count(">other</text>") == 1


def test_colours_and_attributes_are_drawn() -> None:
    picture = drawn(cast((0, "\x1b[1;31mred\x1b[0m \x1b[48;2;1;2;3mpaper\x1b[0m \x1b[7mback")))
    inks = dict(re.findall(r"\.(c\d+)\{fill:(#\w+)\}", picture))
    assert {"#d75f5f", "#010203", cast_svg.PLAIN} <= set(inks.values())
    assert re.search(r'class="b c\d+">red<', picture)


def test_what_a_terminal_shows_is_text_and_no_markup() -> None:
    picture = drawn(cast((0, "<script>&\"'")))
    assert "".join(ElementTree.fromstring(picture).itertext()).endswith("<script>&\"'\n\n\n")  # noqa: S314


def wrong_in(picture: str) -> list[str]:
    """What in an SVG could do more than be seen."""
    found = ["a document type"] if "<!" in picture or "<?" in picture else []
    for part in ElementTree.fromstring(picture).iter():  # noqa: S314
        if part.tag not in HARMLESS:
            found.append(part.tag)
        for name, text in part.attrib.items():
            leads = name.endswith("href") and not text.startswith("#")
            if leads or name.lower().startswith("on"):
                found.append(f"{name}={text}")
    sheet = "".join(re.findall(r"<style>.*?</style>", picture, re.DOTALL))
    return found + re.findall(r"url\(|@import|expression\(|@font-face", sheet)


@pytest.mark.parametrize(
    "harm",
    [
        "<script/>",
        "<foreignObject/>",
        '<use href="https://example.org/a.svg#b"/>',
        '<rect onclick="alert()"/>',
        "<style>@import 'x';</style>",
        "<style>rect{fill:url(//example.org)}</style>",
    ],
)
def test_what_could_do_harm_is_found(harm: str) -> None:
    assert wrong_in(f'<svg xmlns="http://www.w3.org/2000/svg">{harm}</svg>')


def test_the_picture_of_the_demo_is_inert_small_and_what_the_cast_shows() -> None:
    picture = cast_svg.SVG.read_text(encoding="utf-8")
    assert wrong_in(picture) == []
    assert len(picture.encode()) < LARGEST
    assert cast_svg.main(["--check"]) == 0


def test_the_recording_names_no_folder_but_its_own() -> None:
    text = "".join(data for _, data in Cast.read(cast_svg.CAST.read_text("utf-8")).written)
    folders = re.findall(r"(?<![\w.])/\w[\w.-]*/[\w./-]*", re.sub(r"\x1b\[[^a-zA-Z]*.", "", text))
    assert [name for name in folders if not name.startswith("/tmp/breakglass-")] == []


def test_a_long_pause_is_cut_and_a_character_in_pieces_is_whole() -> None:
    sharp = "é".encode()
    written = [(100.0, b"a"), (100.5, sharp[:1]), (100.6, sharp[1:]), (190.0, b"b")]
    assert list(cut(written)) == [
        (0.0, "a"),
        (0.5, ""),
        (0.6, "é"),
        (pytest.approx(0.6 + LONGEST_PAUSE), "b"),
    ]
    assert Cast.read(cast_of(written)).written[-1][1] == "b"
