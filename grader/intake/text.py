"""Bytes → plain text: UTF-8 without a byte-order mark and with plain line ends, so that one answer has one hash on every system."""

from __future__ import annotations

import codecs
import re
import tokenize

# Codecs whose decoding is slow or can yield what UTF-8 can't hold.
NO_SOURCE_ENCODINGS = frozenset({"utf-7", "unicode-escape", "raw-unicode-escape", "punycode", "idna"})


def as_text(raw: bytes, file: str) -> tuple[bytes | None, list[str]]:
    """Normalised UTF-8, or None, and what a student should know about it."""
    encodings = _encodings(raw)
    first_trouble = ""
    for encoding in encodings:
        try:
            text, notes = _plain(raw.decode(encoding), file)
            copy = text.encode()
        except UnicodeError as error:
            line = raw.count(b"\n", 0, getattr(error, "start", 0)) + 1
            first_trouble = first_trouble or f"{file} line {line}: there are bytes that are not {encoding}"
            continue
        if encoding == "utf-16":
            notes.insert(0, f"{file} is UTF-16, which Python doesn't read; it is graded all the same. Save it as UTF-8.")
        elif first_trouble:
            notes.insert(0, f"{first_trouble}; the file is read as {encoding} and graded. Save it as UTF-8.")
        return copy, notes
    return None, [f"{first_trouble}, nor any other encoding that we know; the file is not graded. Save it as UTF-8."]


def _encodings(raw: bytes) -> list[str]:
    """What to try, in order: what the file says it is, UTF-8, and Windows' own."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return ["utf-16"]
    try:
        said = tokenize.detect_encoding(iter(raw.splitlines(keepends=True)).__next__)[0]
        b"#".decode(said, "ignore")  # LookupError for codecs that are no text, such as hex
        if codecs.lookup(said).name in NO_SOURCE_ENCODINGS:
            said = "utf-8"
    except (SyntaxError, LookupError):  # the coding line names no text encoding, or the first lines are no UTF-8
        said = "utf-8"
    return list(dict.fromkeys([said, "utf-8", "cp1252"]))


def _plain(text: str, file: str) -> tuple[str, list[str]]:
    """`text` with plain line ends, no byte-order mark, no NUL and a coding line that is true of the copy; and a note on any NUL."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    notes = []
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        notes.append(f"{file} line {line}: there is a NUL byte, which Python refuses; it is taken out and the file graded.")
        text = text.replace("\0", "")
    return _with_utf8_cookie(text), notes


def _with_utf8_cookie(text: str) -> str:
    """The copy is UTF-8 whatever the original was, so its coding line must say so."""
    lines = text.split("\n", 2)
    for index in range(min(2, len(lines))):
        lines[index] = re.sub(r"^([ \t\f]*#.*?coding[:=][ \t]*)[-\w.]+", r"\1utf-8", lines[index], flags=re.ASCII)
    return "\n".join(lines)
