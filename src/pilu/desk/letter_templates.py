"""Templates of letters: Jinja2 in a sandbox, with errors that name the template and the line.

A template can print what it is given, and nothing more: it reads no files and runs no code.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pilu._extras import need
from pilu.exceptions import WrongInput


def rendered(format: str, template: Path | None, variables: Mapping[str, Any]) -> str:
    """The text of a template, pilu's own for the format by default; in HTML, values are escaped."""
    jinja2 = need("jinja2", for_="letters", extra="desk")
    sandbox = need("jinja2.sandbox", for_="letters", extra="desk")
    title, source = _source(format, template)
    environment = sandbox.ImmutableSandboxedEnvironment(
        autoescape=format == "html",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=jinja2.FunctionLoader(lambda _: None),  # nothing can be included
    )
    try:
        parsed = environment.parse(source)
        _refuse_unknown(environment, parsed, title, variables)
        code = environment.compile(source, title, title)
        made = environment.template_class.from_code(environment, code, environment.make_globals({}))
        text: str = made.render(variables)
    except jinja2.TemplateSyntaxError as error:
        raise WrongInput(f"{title}, line {error.lineno}: {_sentence(error.message)}") from None
    except jinja2.TemplateNotFound as error:
        line = _line_in(error, title)
        raise WrongInput(f"{title}{line}: a template cannot include other files.") from None
    except WrongInput:
        raise
    except Exception as error:  # whatever a template does wrong
        raise WrongInput(f"{title}{_line_in(error, title)}: {_sentence(error)}") from None
    return text


def _source(format: str, template: Path | None) -> tuple[str, str]:
    """The template's name and text."""
    if template is None:
        name = f"letter.{format}"
        return name, (files("pilu.desk") / name).read_text("utf-8")
    try:
        return str(template), Path(template).read_text("utf-8")
    except UnicodeDecodeError:
        raise WrongInput(f"{template} must be text in UTF-8. Save it as such.") from None
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise WrongInput(f"{template} must be a template, got: {why}.") from None


def _refuse_unknown(
    environment: Any, parsed: Any, title: str, variables: Mapping[str, Any]
) -> None:
    """Refuse variables that no letter has, also where this letter would not come to them."""
    meta, nodes = (need(f"jinja2.{m}", for_="letters", extra="desk") for m in ("meta", "nodes"))
    known = {*variables, *environment.globals}
    unknown = meta.find_undeclared_variables(parsed) - known
    lines = [(node.lineno, node.name) for node in parsed.find_all(nodes.Name)]
    found = min(((line, name) for line, name in lines if name in unknown), default=None)
    if found is not None:
        raise WrongInput(
            f"{title}, line {found[0]}: there is no variable {found[1]!r}. Use one of "
            f"{', '.join(sorted(variables))}, or pass it as a detail."
        )


def _line_in(error: BaseException, title: str) -> str:
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == title:
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


def _sentence(error: object) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith(".") else f"{text}."
