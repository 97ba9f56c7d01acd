"""Files → submission: a private copy of exactly the files that are graded, as plain UTF-8 text.

Whatever else lies in the folder stays there; what a student would want to know about it becomes a note.
"""

from __future__ import annotations

import ast
import codecs
import difflib
import hashlib
import os
import re
import stat
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path

from grader.errors import UsageError
from grader.records import Assignment, MiB, Submission

FILE_LIMIT_BYTES = 1 * MiB
GIVEN = frozenset({"lm"})  # the grader's own copy stands beside the submission
LIBRARIES = frozenset({"torch", "triton", "numpy", "ml_dtypes", "tiktoken", "pytest", "grader"})
# Codecs whose decoding is slow or can yield what UTF-8 can't hold.
NO_SOURCE_ENCODINGS = frozenset({"utf-7", "unicode-escape", "raw-unicode-escape", "punycode", "idna"})
HOOKS = {
    "conftest.py": "pytest would run it",
    "sitecustomize.py": "Python would run it at every start",
    "usercustomize.py": "Python would run it at every start",
}


def intake(assignment: Assignment, path: Path, *, into: Path) -> Submission:
    """Copy the files of `assignment` from the folder `path` into `into`, a folder that doesn't exist yet and only we can read.

    Graded text is UTF-8 without a byte-order mark and with plain line ends, so that one answer has one hash on every system. A file that
    can't be graded (a link, over 1 MiB, not text) is left out with a note; the others are graded. UsageError when `path` is no folder.
    """
    _require_folder(path, assignment)
    into.mkdir(mode=0o700, parents=True)
    hashes: dict[str, str] = {}
    notes: list[str] = []
    names = sorted(os.listdir(path))
    for file in assignment.files:
        if file not in names:
            notes.append(_missing(file, names))
            continue
        raw, refusal = _read_regular(path / file)
        text, remarks = _as_text(raw, file) if raw is not None else (None, [refusal])
        notes += remarks
        if text is not None:
            (into / file).write_bytes(text)
            hashes[file] = hashlib.sha256(text).hexdigest()
            notes += _imports_left_behind(text, file, names, assignment)
    notes += _hidden_libraries(names, assignment)
    return Submission(folder=str(into), origin=str(path), files=hashes, notes=tuple(dict.fromkeys(notes)))


# --- the folder ------------------------------------------------------------------------------------------------------
def _require_folder(path: Path, assignment: Assignment) -> None:
    wanted = " and ".join(assignment.files)
    if path.is_dir():
        return
    if path.exists():
        kind = "an archive: unpack it first and" if path.suffix in {".zip", ".gz", ".tgz", ".tar"} else "a file:"
        raise UsageError(f"{path} is {kind} name the folder that holds {wanted}.")
    parent = next(folder for folder in path.absolute().parents if folder.is_dir())
    folders = sorted(entry.name for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    close = difflib.get_close_matches(path.name, folders, n=3) or folders[:6]
    there = f"{parent} holds {', '.join(close)}" if close else f"{parent} holds no folder"
    raise UsageError(f"There is no folder {path}. {there}. Name the folder that holds {wanted}.")


def _missing(file: str, names: Iterable[str]) -> str:
    stem = file.removesuffix(".py")
    alike = [name for name in names if re.fullmatch(rf"{stem}[ _-]*(\(?\d+\)?|copy|final|new)?\.py(\.txt)?", name, re.IGNORECASE)]
    return f"{file} is not in the folder." + (f" {alike[0]} looks like it: rename it to {file} to have it graded." if alike else "")


def _read_regular(path: Path) -> tuple[bytes | None, str]:
    """The bytes of a regular file, or None and why not. Asked of the opened file, so that nothing can be swapped in between."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            return None, f"{path.name} is a link, and links are not followed: put the file itself into the folder."
        return None, f"{path.name} can't be read: {error.strerror}."
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None, f"{path.name} is not a regular file: expected Python source."
    with os.fdopen(handle, "rb") as stream:
        raw = stream.read(FILE_LIMIT_BYTES + 1)
    if len(raw) > FILE_LIMIT_BYTES:
        return None, f"{path.name} is larger than {FILE_LIMIT_BYTES // MiB} MiB, the limit for one source file; it is not graded."
    return raw, ""


# --- the text --------------------------------------------------------------------------------------------------------
def _as_text(raw: bytes, file: str) -> tuple[bytes | None, list[str]]:
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


# --- what stays behind -----------------------------------------------------------------------------------------------
def _hidden_libraries(names: Iterable[str], assignment: Assignment) -> list[str]:
    notes = []
    for name in names:
        module = name.removesuffix(".py")
        if name in assignment.files or name.startswith((".", "__")):
            continue
        if name in HOOKS:
            notes.append(f"{name} is left out: {HOOKS[name]}.")
        elif name.endswith(".pth"):
            notes.append(f"{name} is left out: it would change where Python finds its libraries.")
        elif module in sys.stdlib_module_names or module in LIBRARIES:
            owner = "Python's own library" if module in sys.stdlib_module_names else "the library"
            notes.append(f"{name} is left out: it would hide {owner} {module} from every import. Give it another name.")
    return notes


def _imports_left_behind(text: bytes, file: str, names: Iterable[str], assignment: Assignment) -> list[str]:
    """A note for every module in the folder that `file` imports and that doesn't come along."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # the import in the rank says it with line and caret
    wanted = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    wanted |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    here = {name.removesuffix(".py"): name for name in names} if wanted else {}
    known = GIVEN | LIBRARIES | sys.stdlib_module_names | {graded.removesuffix(".py") for graded in assignment.files}
    behind = sorted({module.partition(".")[0] for module in wanted} & here.keys() - known)
    graded_files = " and ".join(assignment.files)
    return [f"{file} imports {module}, but only {graded_files} is graded: move what it needs from {here[module]}." for module in behind]
