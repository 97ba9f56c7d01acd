"""Reads a bundle as somebody would who looks for answers: files, what is packed in them, a notebook's outputs, history."""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import re
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grader.records import MiB
from grader.release.secrets import Secrets, numbers, reduced

TELLING = 44  # reduced characters of a line that two people don't write alike
TELLING_RUN = 60  # of short lines that stand together in both places
CODE_ROOMS = ("grader/", "tests/", "datasets/")  # written by hand beside the solutions: idioms meet there
OBJECTS = ".git/"  # nobody knows what was the path of these
UNPACKED_LIMIT_BYTES = 256 * MiB
DEPTH_LIMIT = 4
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{40,}={0,2}")
ZLIB = b"\x78"
NOTEBOOK_METADATA = {"kernelspec", "language_info"}
CELL_METADATA = {"tags"}
STAFF_ONLY = re.compile(
    r"\b(staff\.json|judge\.log|store\.sqlite|crash\.txt)$|(^|/)(\.grade|__pycache__|\.ipynb_checkpoints|\.\w+_cache)(/|$)"
)


@dataclass(frozen=True, slots=True)
class Leak:
    """Something that must not leave, and where it was found."""

    path: str
    line: int  # 0: not in a line
    what: str

    def __str__(self) -> str:
        return f"{self.path}{f':{self.line}' if self.line else ''}: {self.what}"


def scan(files: Mapping[str, bytes], secrets: Secrets, allowed: Collection[str] | None = None) -> list[Leak]:
    """Every leak in a bundle's files, one for each place and secret. With `allowed`, each other path is one, whatever it holds."""
    leaks: list[Leak] = []
    for path, content in sorted(files.items()):
        if allowed is not None and path not in allowed:
            leaks.append(Leak(path, 0, "it is not on the allow-list"))
        if STAFF_ONLY.search(path):
            leaks.append(Leak(path, 0, "it is what a grading leaves behind for the staff, or a cache"))
        leaks += _in_text(path, path, secrets)
        for where, text in _texts(path, content, DEPTH_LIMIT):
            leaks += _in_text(where, text, secrets)
        if path.endswith(".ipynb") and "/example/" not in path:  # an example is there for what it shows
            leaks += _in_notebook(path, content)
    return list(dict.fromkeys(leaks))


# --- one text --------------------------------------------------------------------------------------------------------
def _in_text(path: str, text: str, secrets: Secrets) -> Iterator[Leak]:
    lines = [reduced(line) for line in text.splitlines()]
    is_code = (path.startswith(CODE_ROOMS) and path.endswith(".py")) or path.startswith(OBJECTS)
    before, run = "", 0
    for number, line in enumerate(lines, 1):
        known = secrets.lines.get(line) or secrets.lines.get(line.lstrip("#"))
        if known:
            run = len(known.text) + (run if known.text in secrets.neighbours.get(before, ()) else 0)
            if not is_code or len(line) >= TELLING or run >= TELLING_RUN:
                yield Leak(path, number, known.what)
        before = known.text if known else before if not line else ""
    joined, beginnings = "".join(lines), secrets.beginnings(TELLING)  # a line that was broken, or stands inside another
    for place in range(len(joined) - TELLING + 1):
        for secret in beginnings.get(joined[place : place + TELLING], ()):
            if joined.startswith(secret.text, place):
                yield Leak(path, _line_at(place, lines), secret.what)
    for word, secret in secrets.words.items():
        if word in text:
            yield Leak(path, text.count("\n", 0, text.index(word)) + 1, secret.what)
    if secrets.numbers:
        for number, line in enumerate(text.splitlines(), 1):
            yield from (Leak(path, number, secrets.numbers[found].what) for found in numbers(line) if found in secrets.numbers)


def _line_at(place: int, lines: list[str]) -> int:
    """The line to which the character at `place` of all lines together belongs."""
    start = 0
    for number, line in enumerate(lines, 1):
        start += len(line)
        if start > place:
            return number
    return 0


# --- what is packed in a file ----------------------------------------------------------------------------------------
def _texts(path: str, content: bytes, depth: int) -> Iterator[tuple[str, str]]:
    """Every text in a file: the file itself, the strings of its JSON, members of archives, compressed and base64 stretches, git objects."""
    if depth == 0:
        return
    yield path, _decoded(content)
    if path.endswith((".json", ".ipynb", ".jsonl")) or content[:1] in (b"{", b"["):
        yield from ((path, text) for text in _json_strings(content))
    for name, inner in _members(content):
        yield from _texts(f"{path}!{name}" if name else path, inner, depth - 1)


def _decoded(content: bytes) -> str:
    for encoding in ("utf-16",) if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            pass
    return content.decode("latin-1").replace("\0", "")


def _json_strings(content: bytes) -> Iterator[str]:
    try:
        waiting: list[Any] = [json.loads(content)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            if value and all(isinstance(each, str) for each in value):
                yield "".join(value)  # a notebook's lines
            waiting += value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]


def _members(content: bytes) -> Iterator[tuple[str, bytes]]:
    stream = io.BytesIO(content)
    try:
        if content.startswith(b"PK"):
            with zipfile.ZipFile(stream) as archive:
                yield "comment", archive.comment
                for member in archive.infolist():
                    told = member.filename.encode("utf-8", "replace") + b"\n" + member.comment + b"\n"
                    yield member.filename, told + archive.read(member)
        elif content[257:262] == b"ustar":
            with tarfile.open(fileobj=stream) as tape:
                for item in tape:
                    inside = tape.extractfile(item) if item.isreg() else None
                    yield item.name, repr(item.pax_headers).encode() + b"\n" + (inside.read() if inside else b"")
        elif content.startswith(b"\x1f\x8b"):
            yield "", gzip.GzipFile(fileobj=stream).read(UNPACKED_LIMIT_BYTES)
        elif content.startswith(ZLIB):  # a loose object of git
            yield "", zlib.decompressobj().decompress(content, UNPACKED_LIMIT_BYTES)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, RuntimeError, NotImplementedError):
        pass  # not what it seemed; its bytes were read as text
    for match in BASE64.finditer(content):
        try:
            yield "", base64.b64decode(match.group().translate(bytes.maketrans(b"-_", b"+/")) + b"==", validate=False)
        except (binascii.Error, ValueError):
            continue


# --- notebooks -------------------------------------------------------------------------------------------------------
def _in_notebook(path: str, content: bytes) -> Iterator[Leak]:
    """A notebook that ships was never run, and says of itself only what it must."""
    try:
        tree = json.loads(content)
        cells = list(tree["cells"])
    except (ValueError, KeyError, TypeError):
        yield Leak(path, 0, "it can't be read as a notebook")
        return
    if extra := set(tree.get("metadata", {})) - NOTEBOOK_METADATA:
        yield Leak(path, 0, f"the notebook's metadata say {', '.join(sorted(extra))}")
    for number, cell in enumerate(cells, 1):
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield Leak(path, 0, f"cell {number} was run: its outputs must not ship")
        if cell.get("attachments"):
            yield Leak(path, 0, f"cell {number} has attachments")
        if extra := set(cell.get("metadata", {})) - CELL_METADATA:
            yield Leak(path, 0, f"the metadata of cell {number} say {', '.join(sorted(extra))}")


