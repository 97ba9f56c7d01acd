"""Texts of a release that say something of today's assignments, from templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, **facts: Any) -> str:
    """The template's text. A name that it uses and that isn't among `facts` is an error."""
    import jinja2  # a fifth of a second that nothing else of a release's commands needs

    surroundings = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
        trim_blocks=True, lstrip_blocks=True, autoescape=False,
    )  # fmt: skip
    return surroundings.get_template(template).render(**facts)
