"""Text for a terminal of any width, with or without colour, and in any alphabet."""

from __future__ import annotations

import re
import textwrap
from typing import TextIO

from rich.console import Console
from rich.text import Text

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a submission's output must not steer the terminal
IN_ASCII = str.maketrans({
    "✓": "+", "✗": "x", "–": "-", "−": "-", "—": "-", "×": "x", "·": ".", "…": "...", "≤": "<=", "≥": ">=", "≠": "!=", "²": "^2",
    "√": "sqrt ", "→": "->", "’": "'", "“": '"', "”": '"', "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "α": "alpha", "β": "beta",
    "Ψ": "Psi", "µ": "u",
})  # fmt: skip
LINES_OF_A_PART = 14
LEAST_WIDTH, WIDEST = 24, 100  # text wider than a page of a book is tiring to read


class Page:
    """Prints paragraphs with hanging indents, and lines with something on the right."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self.console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
        self.width = max(LEAST_WIDTH, min(self.console.width, WIDEST))
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._is_plain = not _can_say(self._encoding, "✓✗–×≤")

    def spell(self, text: str) -> str:
        """`text` in the characters that the stream can say, without control characters."""
        text = CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\t", "    ").replace("\r\n", "\n"))
        if self._is_plain:
            text = text.translate(IN_ASCII)
        return text.encode(self._encoding, "replace").decode(self._encoding)

    def blank(self) -> None:
        """An empty line."""
        self.console.print()

    def paragraph(self, text: str, *, lead: str = "", indent: int = 0, style: str = "", lead_style: str = "") -> None:
        """`text` wrapped after `lead`, which stands in the indent; its own line breaks are kept, all beyond a limit is cut with a word."""
        lines = self._wrapped(text, max(indent, len(lead)))
        if len(lines) > LINES_OF_A_PART:
            lines[LINES_OF_A_PART - 1 :] = [self.spell(f"… ({len(lines) - LINES_OF_A_PART + 1} more lines in report.json)")]
        for number, line in enumerate(lines or [""]):
            head = Text(self.spell(lead).ljust(indent) if number == 0 else " " * max(indent, len(lead)), style=lead_style)
            self.console.print(head + Text(line, style=style), soft_wrap=True)

    def command(self, text: str, *, lead: str, indent: int) -> None:
        """A command on one line however narrow the page, so that it can be copied."""
        self.console.print(Text(self.spell(lead).ljust(indent), style="dim") + Text(self.spell(text), style="cyan"), soft_wrap=True)

    def spread(self, left: str, right: str, *, lead: str = "", indent: int = 0, style: str = "", lead_style: str = "") -> None:
        """`left` wrapped, and `right` at the end of its first line."""
        right = self.spell(right)
        lines = self._wrapped(left, max(indent, len(lead)) + len(right) + 1)
        for number, line in enumerate(lines or [""]):
            head = Text(self.spell(lead).ljust(indent) if number == 0 else " " * indent, style=lead_style) + Text(line, style=style)
            if number == 0:
                head += Text(" " * (self.width - len(head) - len(right)) + right)
            self.console.print(head, soft_wrap=True)

    def _wrapped(self, text: str, room: int) -> list[str]:
        width = max(LEAST_WIDTH // 2, self.width - room)
        return [line for part in self.spell(text).strip().split("\n") for line in textwrap.wrap(part, width, drop_whitespace=True) or [""]]


def _can_say(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
