"""Reads the Containerfile: its stages and their steps, with arguments put in.

Only what the project's own file uses is understood: every command is in exec form, each `COPY` has
one target, and `${NAME}` is the one way to use an argument.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"


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
