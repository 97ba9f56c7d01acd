"""Solutions with regions → starters, and overlays (mutants, variants) → whole files.

`# region solution <name>` … `# endregion`, each alone on its line, around what the student writes. Anything that looks like a marker
and is none would ship a solution to the students, so it is an error with file and line.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass

from grader.errors import CourseError

BEGIN = re.compile(r"# region solution ([a-z][a-z0-9_]*)")
END = "# endregion"
EXPECTED = f"expected `# region solution <name>` or `{END}`, exactly so and alone on its line, or a comment that begins with another word"

# Read on the comment's words alone: lower case, everything between them collapsed to one space.
NEAR_MISS = re.compile(r"(end ?)?region\b|(begin|start|end|stop)( of)?( the)? ?solution\b|solution (begin|start|end|stop|region)s?\b")


@dataclass(frozen=True, slots=True)
class Region:
    """One marked stretch of a file; lines count from 1 and include the markers."""

    name: str
    first_line: int
    last_line: int
    indent: str
    body: tuple[str, ...]  # the lines between the markers, without line ends


@dataclass(frozen=True, slots=True)
class Header:
    """What the docstring of a mutant or a variant says about it."""

    sentence: str  # its first line: the sin, or what is unusual
    law: str = ""  # the full id of the law that must catch it
    says: str = ""  # a word that the student's message must contain
    file: str = ""  # which file a whole-file variant stands for, when the assignment has several
    policy: str = ""  # the rule that a variant breaks on purpose: it is graded without rules


def find(source: str, file: str) -> tuple[Region, ...]:
    """The regions of `source`, in order. CourseError (`file`:line) for a near-miss, nested, repeated, unclosed or empty region."""
    lines = source.splitlines()
    regions: list[Region] = []
    opened: tuple[str, int, str] | None = None
    for line_number, indent, comment, is_alone in _comments(source, file):
        where = f"{file}:{line_number}"
        begin = BEGIN.fullmatch(comment) if is_alone else None
        if begin and opened:
            raise CourseError(f"{where}: region {begin[1]} begins inside region {opened[0]} (line {opened[1]}); close that one first.")
        if begin and any(region.name == begin[1] for region in regions):
            raise CourseError(f"{where}: there is a region {begin[1]} already; names are unique in a file.")
        if begin:
            opened = (begin[1], line_number, indent)
        elif is_alone and comment == END:
            if not opened:
                raise CourseError(f"{where}: `{END}` without a region before it.")
            regions.append(_closed(opened, line_number, indent, lines, file))
            opened = None
        elif _looks_like_a_marker(comment):
            raise CourseError(f"{where}: `{comment}` looks like a marker and is none: {EXPECTED}.")
    if opened:
        raise CourseError(f"{file}:{opened[1]}: region {opened[0]} is never closed; expected `{END}` below it.")
    return tuple(regions)


def strip(source: str, stubs: Mapping[str, str], file: str) -> str:
    """The starter of a solution: each region replaced by its stub (region name → text) at the region's indent, markers gone.

    Raises CourseError when a region has no stub or what is left doesn't compile.
    """
    lines = source.splitlines()
    for region in reversed(find(source, file)):
        if region.name not in stubs:
            raise CourseError(f"{file}:{region.first_line}: no task has a region {region.name}; name it there or take the markers away.")
        lines[region.first_line - 1 : region.last_line] = _moved(stubs[region.name].splitlines(), region.indent, f"stub of {region.name}")
    return _compiled("\n".join(lines) + "\n", f"the starter of {file}")


def compose(solution: str, overlay: str, file: str, overlay_file: str) -> str:
    """`solution` with the regions of `overlay` in place of its own, at the solution's indent; markers stay.

    Raises CourseError when the overlay names a region that the solution lacks, holds code outside its regions (it would be ignored), or the
    whole doesn't compile.
    """
    ours = {region.name: region for region in find(solution, file)}
    theirs = find(overlay, overlay_file)
    _refuse_code_outside(overlay, theirs, overlay_file)
    lines = solution.splitlines()
    for replacement in theirs:
        if replacement.name not in ours:
            close = difflib.get_close_matches(replacement.name, ours, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(ours) or 'none'}."
            raise CourseError(f"{overlay_file}:{replacement.first_line}: {file} has no region {replacement.name}; {hint}")
    for replacement in sorted(theirs, key=lambda region: ours[region.name].first_line, reverse=True):
        place = ours[replacement.name]
        lines[place.first_line : place.last_line - 1] = _moved(list(replacement.body), place.indent, f"{overlay_file}, region {place.name}")
    return _compiled("\n".join(lines) + "\n", f"{overlay_file} on {file}")


def read_header(source: str, file: str) -> Header:
    """The docstring of a mutant or variant: one sentence, then `law:`, `says:`, `file:` and `policy:` lines. Raises CourseError."""
    docstring = _leading_string(source)
    if docstring is None or not docstring.strip():
        raise CourseError(f"{file}:1: expected a docstring first, whose first line says what is wrong or unusual here.")
    told: dict[str, str] = {}
    for line in docstring.splitlines()[1:]:
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or key not in ("law", "says", "file", "policy"):
            continue
        if key in told or not value:
            raise CourseError(f"{file}: `{key}:` {'stands twice' if key in told else 'says nothing'} in the docstring; expected one value.")
        told[key] = value
    return Header(docstring.strip().splitlines()[0], **told)


# --- markers ---------------------------------------------------------------------------------------------------------
def _comments(source: str, file: str) -> list[tuple[int, str, str, bool]]:
    """Every comment as (line, indent, text, whether it stands alone). Tokens, not lines: a marker inside a string is text."""
    return [
        (token.start[0], token.line[: token.start[1]], token.string.rstrip(), not token.line[: token.start[1]].strip())
        for token in _tokens(source, file)
        if token.type == tokenize.COMMENT
    ]


def _tokens(source: str, file: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(source).readline))
    except tokenize.TokenError as error:
        raise CourseError(f"{file}:{error.args[1][0]}: this is not Python: {error.args[0]}.") from None
    except SyntaxError as error:
        raise CourseError(f"{file}:{error.lineno}: this is not Python: {error.msg}.") from None


def _looks_like_a_marker(comment: str) -> bool:
    words = re.sub(r"[^a-z]+", " ", comment.lower()).strip()
    if NEAR_MISS.match(words):
        return True
    start = " ".join(words.split()[:2])
    return difflib.SequenceMatcher(None, start, "region solution").ratio() > 0.85 or bool(
        difflib.get_close_matches(words, ["endregion", "end region"], n=1, cutoff=0.85)
    )


def _closed(opened: tuple[str, int, str], last_line: int, indent: str, lines: list[str], file: str) -> Region:
    name, first_line, opening_indent = opened
    if indent != opening_indent:
        raise CourseError(f"{file}:{last_line}: region {name} closes at another indent than it opens (line {first_line}).")
    body = tuple(lines[first_line : last_line - 1])
    if not any(line.strip() and not line.strip().startswith("#") for line in body):
        raise CourseError(f"{file}:{first_line}: region {name} holds no code.")
    return Region(name, first_line, last_line, indent, body)


# --- text ------------------------------------------------------------------------------------------------------------
def _moved(lines: list[str], indent: str, what: str) -> list[str]:
    """`lines` with their first code line at `indent` and the rest along with it; lines inside a string keep their text."""
    inside_string = _lines_inside_strings("\n".join(lines) + "\n", what)
    first = next(line for line in lines if line.strip())
    old = first[: len(first) - len(first.lstrip())]
    moved = []
    for number, line in enumerate(lines, 1):
        if number in inside_string or not line.strip():
            moved.append(line if number in inside_string else "")
        elif line.startswith(old):
            moved.append(indent + line[len(old) :])
        else:
            raise CourseError(f"{what}:{number}: {line.strip()!r} is indented less than the first line, {first.strip()!r}.")
    return moved


def _lines_inside_strings(source: str, file: str) -> set[int]:
    """Numbers of the lines that begin inside a string of several lines."""
    starts = {"FSTRING_START"}  # from Python 3.12 on, f-strings come in pieces
    ends = {"FSTRING_END"}
    inside: set[int] = set()
    opened: list[int] = []
    for token in _tokens(source, file):
        name = tokenize.tok_name[token.type]
        if name in starts:
            opened.append(token.start[0])
        elif name in ends:
            inside.update(range(opened.pop() + 1, token.end[0] + 1))
        elif token.type == tokenize.STRING:
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    return inside


def _refuse_code_outside(overlay: str, regions: tuple[Region, ...], file: str) -> None:
    if not regions:
        raise CourseError(f"{file}: it has no region; an overlay replaces regions of the solution.")
    covered = {number for region in regions for number in range(region.first_line, region.last_line + 1)}
    layout = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
    outside = [token for token in _tokens(overlay, file) if token.type not in layout and token.start[0] not in covered]
    if outside and outside[0].type == tokenize.STRING:
        outside = outside[1:]
    if outside:
        raise CourseError(f"{file}:{outside[0].start[0]}: `{outside[0].line.strip()}` stands outside every region and would be ignored.")


def _leading_string(source: str) -> str | None:
    """The first statement of `source` if it is a string. The rest need not compile alone: an overlay may hold a bare `return`."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.STRING:
            return str(ast.literal_eval(token.string))
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING):
            return None
    return None


def _compiled(source: str, what: str) -> str:
    try:
        compile(source, what, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CourseError(f"{what} doesn't compile: {error.msg} (its line {error.lineno}: {(error.text or '').strip()!r}).") from None
    return source
