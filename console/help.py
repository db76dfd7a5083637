"""How the help of every command is written, and the older names that its options answer to.

The first name of an option is the name that help, errors and completion use. The names after it
are names from before, or names of Kafka's own tools: they keep working and are not shown.
Options stand in sections by their `rich_help_panel`, and so do the commands of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter, Parameter
    from typer._click.parser import _OptionParser

ARGUMENTS, OPTIONS, COMMANDS, CONNECTION = "Arguments", "Options", "Commands", "Connection"
HELP_CONNECTION = "breakglass help connection"
GUIDE = (
    ("recover", "Elects the leaders of a plan, or makes one and asks: the usual way."),
    ("unclean-recovery", "Elects the best replica of each partition, without a plan."),
    ("leader-election", "Runs the elections that you choose, one election type at a time."),
    ("rescue", "Only saves records. The other commands save them before they elect."),
)
"""When to use which of the commands of a recovery; each of them prints it."""
WERE_OPTIONS = {
    "PLAN": ("--plan",),
    "JOURNAL": ("--journal",),
    "FILE": ("--from",),
    "DIR...": ("--source", "--from"),
}
"""The options that arguments were before, by the metavar of the argument; they still work."""
WITHIN = "--within"
WERE_WAITS = {"--recovery-duration-ms": "ms", "--drain": "s", "--timeout": "s"}
"""The options that `--within` was before, and the unit of a figure that has none."""
METAVARS = {"int": "N", "int range": "N", "float": "N", "float range": "N", "str": "TEXT"}
"""What stands for the value of an option that names no metavar, by the name of its type."""


class OlderNames:
    """The names of a command's options that are read and not shown."""

    def __init__(self, params: Iterable[Parameter]) -> None:
        """Leave each option of *params* its first name, and remember the rest."""
        self.names = {param: tuple(param.opts[1:]) for param in params if len(param.opts) > 1}
        for param in self.names:
            del param.opts[1:]

    def add_to(self, parser: _OptionParser, ctx: Context) -> None:
        for param, names in self.names.items():
            shown, param.opts = param.opts, list(names)
            try:
                param.add_to_parser(parser, ctx)
            finally:
                param.opts = shown


class HelpedCommand(TyperCommand):
    """A command with sections in its help, and with older names of its options and arguments."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.older = OlderNames(self.params)

    def make_parser(self, ctx: Context) -> _OptionParser:
        parser = super().make_parser(ctx)
        self.older.add_to(parser, ctx)
        return parser

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.rewritten(ctx, args))

    def rewritten(self, _ctx: Context, args: list[str]) -> list[str]:
        """*args* with the values of options that arguments were once in place of the options."""
        args = as_now(self, args)
        options = names_of(self)
        were = {
            name
            for param in self.params
            if isinstance(param, TyperArgument)
            for name in WERE_OPTIONS.get(param.metavar or "", ())
        } - options
        found: list[str] = []
        rest = iter(args)
        for word in rest:
            name, equals, value = word.partition("=")
            if name in were:
                found.append(value if equals else next(rest, name))
            else:
                found.append(word)
        return found

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        return ["[OPTIONS]", *_usage(self.get_params(ctx))]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        write_params(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        write_guide(ctx, formatter)


class HelpedGroup(TyperGroup):
    """A group whose help has sections of options and of commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.older = OlderNames(self.params)

    def make_parser(self, ctx: Context) -> _OptionParser:
        parser = super().make_parser(ctx)
        self.older.add_to(parser, ctx)
        return parser

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        # What is completed may still become the name of a command.
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, self.rewritten(ctx, args))

    def rewritten(self, _ctx: Context, args: list[str]) -> list[str]:
        """*args* as they are parsed."""
        return args

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        write_params(self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        rows = [
            (command.rich_help_panel, (name, summary_of(command)))
            for name in self.list_commands(ctx)
            if isinstance(command := self.commands[name], TyperCommand | TyperGroup)
            and not command.hidden
        ]
        _write(rows, COMMANDS, formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        write_guide(ctx, formatter)


def names_of(command: HelpedCommand | HelpedGroup) -> set[str]:
    """Every name of an option of *command*, older ones too."""
    older = [name for names in command.older.names.values() for name in names]
    return {*older, *(name for param in command.params for name in param.opts)}


def as_now(command: HelpedCommand | HelpedGroup, args: Sequence[str]) -> list[str]:
    """*args* with the present option for each wait; without `--write` if `--dry-run` is there."""
    options = names_of(command)
    found: list[str] = []
    rest = iter(args)
    for word in rest:
        name, equals, value = word.partition("=")
        if WITHIN in options and name in WERE_WAITS.keys() - options:
            value = value if equals else next(rest, "")
            found += [WITHIN, f"{value}{WERE_WAITS[name]}" if value.isdigit() else value]
        else:
            found.append(word)
    if "--dry-run" in found and "--write" in options and "--dry-run" not in options:
        return [word for word in found if word not in ("--dry-run", "--write")]
    return found


class PlanGroup(HelpedGroup):
    """A group whose argument is a plan, or one of its commands."""

    def rewritten(self, ctx: Context, args: list[str]) -> list[str]:
        """Take a word that is no command for the plan, wherever it stands."""
        if not args or args[0] not in self.commands:
            args = as_now(self, args)
        given, rest, _ = self.make_parser(ctx).parse_args(list(args))
        if not rest or rest[0] in self.commands or ctx.resilient_parsing:
            return args
        if given.get("plan") is not None:
            ctx.fail(f"{given['plan']} and {rest[0]} are two plans: name one.")
        close = get_close_matches(rest[0], self.commands)
        if close and not Path(rest[0]).exists():
            ctx.fail(f"There is no plan {rest[0]!r}. Did you mean the command {close[0]!r}?")
        options = [word for word in args[: len(args) - len(rest)] if word != "--"]
        return self.rewritten(ctx, [*options, "--plan", rest[0], *rest[1:]])


def summary_of(command: Command) -> str:
    """The line of *command* in a list: its short help, else the first paragraph of its help."""
    text = command.short_help or (command.help or "").strip().partition("\n\n")[0]
    return " ".join(text.split())


def write_params(params: Sequence[Parameter], ctx: Context, formatter: HelpFormatter) -> None:
    """Write the arguments among *params*, then the options of each panel."""
    arguments = [
        (ARGUMENTS, (_name(param), _help(param, ctx)))
        for param in params
        if isinstance(param, TyperArgument) and not param.hidden
    ]
    options = [
        (param.rich_help_panel, (_names(param, ctx), _help(param, ctx)))
        for param in params
        if isinstance(param, TyperOption) and not param.hidden
    ]
    _write(arguments, ARGUMENTS, formatter)
    program = ctx.find_root().info_name == "breakglass"
    _write([row for row in options if not program or row[0] != CONNECTION], OPTIONS, formatter)
    if program and any(panel == CONNECTION for panel, _ in options):
        formatter.write_paragraph()
        formatter.write_text(f"Connection: `{HELP_CONNECTION}`")


def write_guide(ctx: Context, formatter: HelpFormatter) -> None:
    """Write `GUIDE` below the help of each of its commands."""
    if ctx.command_path in [f"breakglass {name}" for name, _ in GUIDE]:
        with formatter.section("Which command"):
            formatter.write_dl(GUIDE)


def _write(
    rows: Sequence[tuple[str | None, tuple[str, str]]], default: str, formatter: HelpFormatter
) -> None:
    """Write *rows* in sections: those without a panel first, under *default*."""
    sections: dict[str, list[tuple[str, str]]] = {default: []}
    for panel, row in rows:
        sections.setdefault(panel or default, []).append(row)
    for section, some in sections.items():
        if some:
            with formatter.section(section):
                formatter.write_dl(some)


def _usage(params: Iterable[Parameter]) -> list[str]:
    """Each argument as it stands in the usage line; one that may be left out in brackets."""
    arguments = [param for param in params if isinstance(param, TyperArgument) and not param.hidden]
    return [
        _name(argument) if argument.required else f"[{_name(argument)}]" for argument in arguments
    ]


def _name(argument: TyperArgument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _names(option: TyperOption, ctx: Context) -> str:
    names = " / ".join([", ".join(sorted(option.opts, key=len)), *option.secondary_opts])
    return names if option.is_flag else f"{names} {_metavar(option, ctx)}"


def _metavar(option: TyperOption, ctx: Context) -> str:
    if option.metavar is None and option.type.name in METAVARS:
        return METAVARS[option.type.name]
    return option.make_metavar(ctx).strip("<>")


def _help(param: TyperArgument | TyperOption, ctx: Context) -> str:
    """What *param* is for, and its default; an option that must be given says so."""
    default = _default(param, ctx)
    note = f"(default: {default})" if default else ""
    if param.required and isinstance(param, TyperOption):
        note = "(required)"
    words = " ".join(filter(None, ((param.help or "").removesuffix("."), note)))
    return f"{words}." if words else ""


def _default(param: TyperArgument | TyperOption, ctx: Context) -> str:
    """The default of *param* as it is written on a command line; empty where there is none."""
    if isinstance(param.show_default, str):
        return param.show_default
    value = param.get_default(ctx, call=False)
    if not param.show_default or value is None or value is False or callable(value):
        return ""
    if value is True and isinstance(param, TyperOption):
        return param.opts[0].lstrip("-") if param.secondary_opts else ""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value.value if isinstance(value, Enum) else value)
