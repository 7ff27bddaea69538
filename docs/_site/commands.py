"""The command line as Markdown, from the commands themselves."""

import re

from typer.main import get_command

from pilu.cli.app import app


def markdown():
    """A section for each command."""
    root = get_command(app)
    return "\n\n".join(_section(f"pilu {name}", one) for name, one in root.commands.items())


def _section(call, command):
    if hasattr(command, "commands"):
        parts = [f"## `{call}`", _text(command.help)]
        for name, one in command.commands.items():
            parts.append(_section(f"{call} {name}", one).replace("## ", "### ", 1))
        return "\n\n".join(parts)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    parts = [f"## `{call}`", _text(command.help)]
    if command.epilog:
        example = re.sub(r"^Example: `(.*)`$", r"\1", command.epilog)
        parts.append(f"```sh\n{example}\n```")
    rows = {None: [f"| `{_metavar(p)}` | {_told(p)} |" for p in arguments]}
    for option in options:
        panel = getattr(option, "rich_help_panel", None)
        rows.setdefault(panel, []).append(f"| {_names(option)} | {_told(option)} |")
    for panel, lines in rows.items():
        if lines:
            parts.append("\n".join([f"| {panel or 'argument'} | |", "| --- | --- |", *lines]))
    return "\n\n".join(parts)


def _text(text):
    return re.sub(r"\n(?!\n)", " ", (text or "").strip().replace("\n\n", "\n\n\n"))


def _metavar(parameter):
    name = (parameter.metavar or parameter.name).upper()
    return name if parameter.required else f"[{name}]"


def _names(option):
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else (option.metavar or option.type.name.upper())
    return f"{names} `{value}`" if value else names


def _told(parameter):
    said = " ".join((parameter.help or "").split())
    if parameter.required and parameter.param_type_name == "option":
        said += " Required."
    default = parameter.default
    if isinstance(default, (str, int, float)) and not isinstance(default, bool):
        said += f" Default: `{default}`."
    return said.replace("|", "\\|")
