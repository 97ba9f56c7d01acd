"""Folders as students send them: what is graded, what stays behind, and what they are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.errors import UsageError
from grader.intake import FILE_LIMIT_BYTES, intake
from grader.records import Assignment, Submission

RINGS = Assignment("rings", 1, "Rings", ("rings.py",), ())
TWO = Assignment("two", 2, "Two files", ("first.py", "second.py"), ())
PLAIN = b"def f():\n    return 1\n"


def sent(folder: Path, **files: bytes) -> Path:
    """`folder` with files, their names written with __ for a dot."""
    folder.mkdir(parents=True)
    for name, raw in files.items():
        (folder / name.replace("__", ".")).write_bytes(raw)
    return folder


def taken(tmp_path: Path, raw: bytes, name: str = "a") -> tuple[Submission, str]:
    """What comes of rings.py with these bytes: the submission and the graded text."""
    submission = intake(RINGS, sent(tmp_path / name, rings__py=raw), into=tmp_path / f"{name}-copy")
    copy = Path(submission.folder) / "rings.py"
    return submission, copy.read_text(encoding="utf-8") if copy.exists() else ""


def test_only_the_assignments_files_are_copied_into_a_private_folder(tmp_path: Path) -> None:
    """The copy holds the allow-list and nothing else, and only its owner can look in."""
    folder = sent(tmp_path / "🦊 abgabe", rings__py=PLAIN, notes__md=b"hello", other__py=b"x = 1\n")
    submission = intake(RINGS, folder, into=tmp_path / "run" / "copy")
    copy = Path(submission.folder)
    assert sorted(os.listdir(copy)) == ["rings.py"] and (copy / "rings.py").read_bytes() == PLAIN
    assert copy.stat().st_mode & 0o777 == 0o700
    assert submission.notes == () and submission.origin == str(folder)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_and_byte_order_marks_change_no_hash(tmp_path: Path, mark: bytes, line_end: bytes) -> None:
    """The same answer saved on another system is the same submission, without a word."""
    plain, _ = taken(tmp_path, PLAIN, "plain")
    other, text = taken(tmp_path, mark + PLAIN.replace(b"\n", line_end), "other")
    assert other.hash == plain.hash and text.encode() == PLAIN and other.notes == ()
    changed, _ = taken(tmp_path, PLAIN.replace(b"1", b"2"), "changed")
    assert changed.hash != plain.hash


@pytest.mark.parametrize(
    ("raw", "note", "text"),
    [
        (b"x = 1\n# caf\xe9\n", "rings.py line 2: there are bytes that are not utf-8; the file is read as cp1252", "x = 1\n# café\n"),
        (b"# coding: latin-1\n# caf\xe9\n", "", "# coding: utf-8\n# café\n"),
        (b"#!/bin/x\n# -*- coding: cp1252 -*-\n# \x80\n", "", "#!/bin/x\n# -*- coding: utf-8 -*-\n# €\n"),
        (b"# coding: ascii\n# caf\xc3\xa9\n", "rings.py line 2: there are bytes that are not ascii;", "# coding: utf-8\n# café\n"),
        (b"# coding: nonsense\nx = 1\n", "", "# coding: utf-8\nx = 1\n"),
        (b"# coding: hex\nx = 1\n", "", "# coding: utf-8\nx = 1\n"),
        (b"# coding: utf-7\nx = '+2AA-'\n", "", "# coding: utf-8\nx = '+2AA-'\n"),
        (b"x = 1\ny = 2\0\n", "rings.py line 2: there is a NUL byte", "x = 1\ny = 2\n"),
        ("x = 'é'\n".encode("utf-16"), "rings.py is UTF-16", "x = 'é'\n"),
    ],
)  # fmt: skip
def test_odd_bytes_are_read_and_named(tmp_path: Path, raw: bytes, note: str, text: str) -> None:
    """Another encoding or a NUL byte is graded as what it means, and the note names file and line."""
    submission, graded = taken(tmp_path, raw)
    assert graded == text
    assert [note in told for told in submission.notes] == ([True] if note else [])
    compile(graded, "rings.py", "exec")


@pytest.mark.parametrize("raw", [b"x = 1\n\n# \x81\xff\n", b"\xff\xfe\x00"])
def test_bytes_of_no_encoding_leave_the_file_out_with_its_line(tmp_path: Path, raw: bytes) -> None:
    """What can't be decoded is not graded; one message says where."""
    submission, _ = taken(tmp_path, raw)
    assert submission.files == {}
    assert len(submission.notes) == 1 and "the file is not graded" in submission.notes[0]
    assert f"line {3 if raw[:1] == b'x' else 1}" in submission.notes[0]


def test_one_bad_file_does_not_sink_the_other(tmp_path: Path) -> None:
    """A link, an oversized file, a folder or a pipe in place of a file is named, and the rest is graded."""
    solution = sent(tmp_path / "solutions", first__py=PLAIN) / "first.py"
    for name, make in {
        "link": lambda path: path.symlink_to(solution),
        "hole": lambda path: path.symlink_to(path.parent / "nowhere"),
        "large": lambda path: path.write_bytes(b"#" * (FILE_LIMIT_BYTES + 1)),
        "folder": lambda path: path.mkdir(),
        "pipe": lambda path: os.mkfifo(path),
    }.items():
        folder = sent(tmp_path / name, second__py=PLAIN)
        make(folder / "first.py")
        submission = intake(TWO, folder, into=tmp_path / f"{name}-copy")
        assert list(submission.files) == ["second.py"], name
        assert len(submission.notes) == 1 and submission.notes[0].startswith("first.py is "), name


def test_a_file_at_the_limit_is_graded(tmp_path: Path) -> None:
    """One MiB is allowed, one byte more is not."""
    submission, _ = taken(tmp_path, b"#" * FILE_LIMIT_BYTES)
    assert list(submission.files) == ["rings.py"] and submission.notes == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("random.py", "hide Python's own library random"),
        ("types.py", "hide Python's own library types"),
        ("torch.py", "hide the library torch"),
        ("numpy", "hide the library numpy"),
        ("conftest.py", "pytest would run it"),
        ("sitecustomize.py", "Python would run it at every start"),
        ("paths.pth", "change where Python finds its libraries"),
    ],
)
def test_a_file_that_hides_a_library_is_named(tmp_path: Path, name: str, words: str) -> None:
    """Such a file stays behind, the note says which library it would hide, and the answer is graded."""
    folder = sent(tmp_path / "a", rings__py=PLAIN)
    if "." in name:
        (folder / name).write_text("x = 1\n")
    else:
        (folder / name).mkdir()
    submission = intake(RINGS, folder, into=tmp_path / "copy")
    assert list(submission.files) == ["rings.py"] and os.listdir(submission.folder) == ["rings.py"]
    (note,) = submission.notes
    assert note.startswith(f"{name} is left out") and words in note


def test_an_import_that_stays_behind_is_named(tmp_path: Path) -> None:
    """A file of the student's own that the answer imports can't come along, and they learn it before the traceback; `lm` is given."""
    folder = sent(tmp_path / "a", rings__py=b"import lm.gpt, torch, json\nfrom my_ring import step\n", my_ring__py=b"", unused__py=b"")
    (folder / "lm").mkdir()
    (note,) = intake(RINGS, folder, into=tmp_path / "copy").notes
    assert note == "rings.py imports my_ring, but only rings.py is graded: move what it needs from my_ring.py."


@pytest.mark.parametrize("raw", [b"def f(:\n", b"x = " + b"(" * 5000])
def test_source_that_does_not_parse_is_still_taken(tmp_path: Path, raw: bytes) -> None:
    """A syntax error is the import's to report; intake copies the file."""
    submission, _ = taken(tmp_path, raw)
    assert list(submission.files) == ["rings.py"]


def test_a_missing_file_is_noted_and_a_renamed_one_mapped_back(tmp_path: Path) -> None:
    """An empty folder gives an empty submission with a note; a renamed upload is graded under its own name."""
    assert intake(RINGS, sent(tmp_path / "a"), into=tmp_path / "a-copy").notes == ("rings.py is not in the folder.",)
    for index, name in enumerate(["rings-1.py", "Rings.py", "rings (2).py", "rings.py.txt"]):
        folder = sent(tmp_path / f"b{index}")
        (folder / name).write_bytes(PLAIN)
        submission = intake(RINGS, folder, into=tmp_path / f"b{index}-copy")
        assert submission.notes == (f"{name} is graded as rings.py.",) and list(submission.files) == ["rings.py"]


def test_a_path_that_is_no_folder_says_what_was_seen_and_what_to_try(tmp_path: Path) -> None:
    """A slip in the name gets the nearest folders; what can't be read gets what can be."""
    sent(tmp_path / "starter")
    sent(tmp_path / "solutions", rings__pdf=PLAIN, work__zip=b"PK")
    for path, words in [
        (tmp_path / "solution", rf"There is no folder .*solution\. {tmp_path} holds solutions.*folder that holds rings\.py"),
        (tmp_path / "no" / "such", "There is no folder"),
        (tmp_path / "solutions" / "rings.pdf", r"none of the kinds .* a notebook \(\.ipynb\) or rings\.py"),
        (tmp_path / "solutions" / "work.zip", "is damaged, or was not sent whole"),
    ]:
        with pytest.raises(UsageError, match=words):
            intake(RINGS, path, into=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
