"""A handout's Markdown → HTML: maths as MathML, code in classes that the stylesheet colours, headings that can be linked to."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from grader.errors import CourseError

ASSIGNMENT = re.compile(r"\bassignment (\d+)\b")


@dataclass(frozen=True, slots=True)
class Section:
    """One heading and what stands under it, down to the next heading."""

    level: int
    id: str
    title: str  # as text
    body: str  # as HTML


def sections(text: str, pages: Mapping[int, str], file: str) -> list[Section]:
    """The headings of a Markdown text in their order. What stands before the first one is left out.

    pages  number of an assignment -> its page: "assignment 6" in a sentence leads there
    file   named by the CourseError for maths that can't be read
    """
    reader = _reader()
    env: dict[str, Any] = {"pages": pages, "file": file}
    tokens = reader.parse(text, env)
    starts = [number for number, token in enumerate(tokens) if token.type == "heading_open"]
    found = []
    for start, stop in zip(starts, [*starts[1:], len(tokens)], strict=True):
        opening, inline = tokens[start], tokens[start + 1]
        title = "".join(child.content for child in inline.children or ())
        body = reader.renderer.render(tokens[start + 3 : stop], reader.options, env)
        found.append(Section(int(opening.tag[1]), str(opening.attrs["id"]), title, body))
    return found


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").use(anchors_plugin, max_level=4)
    reader.use(dollarmath_plugin, allow_space=False, allow_digits=False)
    reader.add_render_rule("math_inline", _inline_maths)
    reader.add_render_rule("code_block", _drawn)
    reader.add_render_rule("fence", _fence)
    reader.add_render_rule("table_open", _table_open)
    reader.add_render_rule("table_close", _table_close)
    reader.add_render_rule("text", _text)
    return reader


def _fence(self: RendererHTML, tokens: Sequence[Token], number: int, options: Any, env: dict[str, Any]) -> str:
    """Maths, Python, or something drawn with letters, which must keep its columns."""
    token = tokens[number]
    match token.info.strip():
        case "math":
            return f'<div class="maths scroll" tabindex="0" role="region" aria-label="Formula">{mathml(token.content, env["file"])}</div>\n'
        case "python":
            code = highlight(token.content, PythonLexer(), HtmlFormatter(nowrap=True))
            return f'<pre class="code" tabindex="0"><code>{code}</code></pre>\n'
        case _:
            return _drawn(self, tokens, number, options, env)


def _inline_maths(self: RendererHTML, tokens: Sequence[Token], number: int, options: Any, env: dict[str, Any]) -> str:
    return mathml(tokens[number].content, env["file"], display="inline")


def _drawn(self: RendererHTML, tokens: Sequence[Token], number: int, options: Any, env: dict[str, Any]) -> str:
    return f'<pre class="code" tabindex="0"><code>{html.escape(tokens[number].content)}</code></pre>\n'


def mathml(latex: str, file: str, display: str = "block") -> str:
    """A formula, `inline` or as a `block` of its own. Raises CourseError if it can't be read, or has a command that is not known."""
    try:
        written: str = convert(latex.strip(), display=display)
    except Exception as unfit:  # the package's errors have no base of their own
        raise CourseError(f"{file}: this formula can't be read as LaTeX ({type(unfit).__name__}): {latex.strip()}") from unfit
    if unknown := re.search(r"\\\w+|<mi>&</mi>", written):  # what the converter doesn't know, it shows as it stands
        raise CourseError(f"{file}: {unknown.group()} can't be shown as MathML, in: {latex.strip()}")
    return written


def _table_open(self: RendererHTML, tokens: Sequence[Token], number: int, options: Any, env: dict[str, Any]) -> str:
    return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n'


def _table_close(self: RendererHTML, tokens: Sequence[Token], number: int, options: Any, env: dict[str, Any]) -> str:
    return "</table></div>\n"


def _text(self: RendererHTML, tokens: Sequence[Token], number: int, options: Any, env: dict[str, Any]) -> str:
    """Words, in which another assignment's number is a link to it."""
    pages: Mapping[int, str] = env["pages"]

    def linked(found: re.Match[str]) -> str:
        page = pages.get(int(found.group(1)))
        return f'<a href="{page}">{found.group()}</a>' if page else found.group()

    return ASSIGNMENT.sub(linked, html.escape(tokens[number].content))
