"""Reads the Containerfile, and finds what a container of operators must not have.

Only what the project's own file uses is understood: every command is in exec form, each `COPY` has
one target, and `${NAME}` is the one way to use an argument.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"
COMMANDS = ("RUN", "ENTRYPOINT", "CMD")
KNOWN = {*COMMANDS, "ARG", "FROM", "COPY", "ENV", "USER", "VOLUME", "WORKDIR"}
SECRET = re.compile(r"(?i)(password|passwd|secret|token|api_?key|jaas)")
TAGGED = re.compile(r"[a-z/]+:(?!latest\b)[\w.-]+(@sha256:[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True)
class Instruction:
    """A word and what stands after it, with arguments put in."""

    word: str
    rest: str

    def command(self) -> list[str]:
        """The words of a command in exec form. Raises ValueError where it is in another."""
        words = json.loads(self.rest)
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise ValueError(self.rest)
        return words

    def copied(self) -> tuple[str | None, list[str], str]:
        """The stage that a `COPY` is from, or None, its sources and its target."""
        words = self.rest.split()
        stage = next((w.partition("=")[2] for w in words if w.startswith("--from=")), None)
        *sources, target = (word for word in words if not word.startswith("--"))
        return stage, sources, target

    def pairs(self) -> dict[str, str]:
        """The names and values of an `ENV`."""
        return dict(pair.split("=", 1) for pair in self.rest.split())


@dataclass(frozen=True, slots=True)
class Stage:
    """What is done in one stage, on which base."""

    base: str
    name: str
    steps: tuple[Instruction, ...]

    def last(self, word: str) -> Instruction | None:
        """The last instruction with that word."""
        return next((step for step in reversed(self.steps) if step.word == word), None)


def stages(text: str, given: Mapping[str, str] | None = None) -> list[Stage]:
    """The stages of a Containerfile, with the arguments' defaults or what is *given*."""
    values: dict[str, str] = {}
    found: list[Stage] = []
    for word, rest in _instructions(text):
        # PATH is what the stage before has: only who runs the steps knows it.
        put_in = re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], match[0]), rest)
        if word == "ARG":
            name, _, default = put_in.partition("=")
            values.setdefault(name, (given or {}).get(name, default))
        elif word == "FROM":
            base, _, name = put_in.partition(" AS ")
            found.append(Stage(base, name, ()))
        else:
            stage = found.pop()
            step = Instruction(word, put_in)
            found.append(Stage(stage.base, stage.name, (*stage.steps, step)))
    return found


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word, " ".join(rest.split())


def faults(text: str, given: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with a Containerfile that can be seen without running its steps."""
    built = stages(text, given)
    steps = [step for stage in built for step in stage.steps]
    return [
        *(f"the base {stage.base} has no tag" for stage in built if not TAGGED.match(stage.base)),
        *(f"{step.word} is not understood" for step in steps if step.word not in KNOWN),
        *(f"not in exec form: {step.rest}" for step in steps if not _exec_form(step)),
        *(
            f"looks like a secret: {word}"
            for word, rest in _instructions(text)
            if SECRET.search(rest)
        ),
        *_copied_wrongly(built),
        *_run_wrongly(built[-1]),
    ]


def _exec_form(step: Instruction) -> bool:
    if step.word not in COMMANDS:
        return True
    try:
        return bool(step.command())
    except ValueError:
        return False


def _copied_wrongly(built: list[Stage]) -> Iterator[str]:
    """Sources that are not there for somebody who has the repository alone."""
    names: set[str] = set()
    for stage in built:
        for step in stage.steps:
            if step.word == "COPY":
                origin, sources, _ = step.copied()
                if origin is not None and origin not in names:
                    yield f"there is no stage {origin} before"
                yield from (
                    f"{source} is not in git"
                    for source in sources
                    if origin is None and not _tracked(source)
                )
        names.add(stage.name)


@cache
def _tracked(name: str) -> bool:
    if "://" in name or name.startswith(("/", "..")) or name == ".":
        return False
    listed = ("git", "ls-files", "--", name)
    return bool(subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout)


def _run_wrongly(image: Stage) -> Iterator[str]:
    """What keeps Breakglass from running as a user without rights."""
    user, entry = image.last("USER"), image.last("ENTRYPOINT")
    if user is None or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user.rest):
        yield "the user is root, or no number"
    elif entry is None or image.steps.index(user) > image.steps.index(entry):
        yield "the user is not chosen before the entry point"
    if image.last("VOLUME") is None:
        yield "there is no volume to write to"
