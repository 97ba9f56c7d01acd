"""What students hand in, in the ways in which they do: wrapped, renamed, with litter beside it, as a clone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.errors import UsageError
from grader.intake.bag import NUM_ENTRIES_LIMIT
from grader.records import Assignment, Submission

Take, Pack = Callable[..., Submission], Callable[..., Path]
PLAIN = b"def f():\n    return 1\n"
TWO = Assignment("two", 2, "Two files", ("first.py", "second.py"), ())
KINDS = ("folder", "zip", "tar", "tar.gz")
LAYOUTS = {
    "plain": {"rings.py": PLAIN},
    "windows": {"rings.py": b"\xef\xbb\xbf" + PLAIN.replace(b"\n", b"\r\n")},
    "wrapped": {"my work 🦊/rings.py": PLAIN},
    "twice_wrapped": {"a/b/rings.py": PLAIN},
    "from_a_mac": {"mine/rings.py": PLAIN, "__MACOSX/mine/._rings.py": b"\0\5\x16\7", "mine/.DS_Store": b"Bud1", "mine/._rings.py": b"\0"},
    "whole_course": {
        "course-main/assignments/rings/handout.md": b"#", "course-main/starter/rings.py": PLAIN, "course-main/grader/__init__.py": b"",
        "course-main/tests/probes/rings.py": b"probe = 1\n", "course-main/.venv/lib/rings.py": b"x = 2\n",
    },
    "with_checkpoints": {"rings.py": PLAIN, ".ipynb_checkpoints/rings.py": b"old\n", "__pycache__/rings.cpython-312.pyc": b"\0"},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_answer_has_one_hash_in_every_layout(take: Take, pack: Pack, kind: str, layout: str) -> None:
    """Line ends, a byte-order mark, a wrapping folder, litter or the kind of archive change neither hash nor text, and cause no note."""
    plain = take(pack("folder", LAYOUTS["plain"]))
    other = take(pack(kind, LAYOUTS[layout]))
    assert other.hash == plain.hash
    assert (Path(other.folder) / "rings.py").read_bytes() == PLAIN
    assert os.listdir(other.folder) == ["rings.py"] and other.notes == ()


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["rings-1.py"], "rings-1.py"),
        (["rings-1.py", "rings-3.py", "rings-2.py"], "rings-3.py"),
        (["rings (1).py"], "rings (1).py"),
        (["RINGS.PY"], "RINGS.PY"),
        (["rings copy.py", "Rings.py"], "Rings.py"),
        (["rings.py.txt"], "rings.py.txt"),
        (["doe_8743_22112_rings-2.py"], "doe_8743_22112_rings-2.py"),
        (["rings (1).py", "rings.py"], "rings.py"),
    ],
)
def test_a_renamed_file_is_mapped_back(take: Take, pack: Pack, kind: str, names: list[str], chosen: str) -> None:
    """What a browser or an upload form made of the name is undone; the newest is graded, and the note names what was not looked at."""
    submission = take(pack(kind, {name: f"name = {name!r}\n".encode() for name in names}))
    assert (Path(submission.folder) / "rings.py").read_text() == f"name = {chosen!r}\n"
    (note,) = submission.notes
    assert note.startswith(f"{chosen} is graded") and all(name in note for name in names)


@pytest.mark.parametrize("name", ["strings.py", "rings_test.py", "my_rings.py", "ringspy", "rings.pyc"])
def test_another_file_is_not_taken_for_it(take: Take, pack: Pack, name: str) -> None:
    """Only what renaming makes of a name counts: `sharded_data_parallel.py` is no `data_parallel.py`."""
    submission = take(pack("folder", {name: PLAIN}))
    assert submission.files == {} and "rings.py is not in the folder." in submission.notes


def test_a_single_file_is_handed_in_as_it_is(take: Take, pack: Pack) -> None:
    """The path of one file is enough; an assignment that it doesn't belong to says so."""
    folder = pack("folder", {"rings-2.py": PLAIN})
    assert take(folder / "rings-2.py").files == take(pack("folder", {"rings.py": PLAIN})).files
    assert take(folder / "rings-2.py", TWO).notes[0] == "first.py is not in what was handed in, rings-2.py."


def test_what_stands_in_two_places_is_named_and_the_rest_graded(take: Take, pack: Pack) -> None:
    """Nobody guesses between two answers; another assignment's file in the same folder counts."""
    folder = pack("folder", {"old/rings.py": b"x = 1\n", "new/rings.py": b"x = 2\n", "new/first.py": PLAIN, "new/second.py": PLAIN})
    submission = take(folder)
    assert submission.files == {}
    assert submission.notes == ("rings.py lies in new/ and in old/: hand in one of them. Until then it is not graded.",)
    assert sorted(take(folder, TWO).files) == ["first.py", "second.py"]


def test_a_folder_without_end_is_not_walked_to_its_end(take: Take, pack: Pack) -> None:
    """The nearest files are found; that the others were not looked at is said."""
    folder = pack("folder", {"a/rings.py": PLAIN, "b/0": b""})
    for number in range(NUM_ENTRIES_LIMIT):
        (folder / "b" / str(number)).touch()
    submission = take(folder)
    assert list(submission.files) == ["rings.py"] and "only the nearest were looked at" in submission.notes[0]


def test_links_lead_nowhere(take: Take, pack: Pack, tmp_path: Path) -> None:
    """A linked folder is not entered and a linked file not read, in a clone's files as anywhere."""
    solutions = pack("folder", {"rings.py": b"secret = 1\n"})
    for name, target in (("folder", solutions), ("rings.py", solutions / "rings.py")):
        folder = tmp_path / f"with-{name}"
        folder.mkdir()
        (folder / name).symlink_to(target)
        submission = take(folder)
        assert submission.files == {} and len(submission.notes) == 1


def test_a_clone_is_graded_with_files_or_without(take: Take, pack: Pack, tmp_path: Path) -> None:
    """Of a clone the files that lie there count; of a bare repository those of its last commit. Links in it are not followed."""
    work = pack("folder", {"starter/rings.py": PLAIN, "README.md": b"hello"})
    (work / "starter" / "first.py").symlink_to("rings.py")

    def git(*arguments: str | Path) -> None:
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments], cwd=work, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "mine")
    git("clone", "-q", "--bare", work, tmp_path / "bare.git")
    plain = take(pack("folder", {"rings.py": PLAIN}))
    assert take(work).hash == take(tmp_path / "bare.git").hash == plain.hash
    assert take(tmp_path / "bare.git", TWO).notes[0].startswith("first.py is a link, and links are not followed")


def test_a_repository_without_a_commit_is_named(take: Take, tmp_path: Path) -> None:
    """An empty bare repository ends in one sentence."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "empty.git"], check=True, capture_output=True)
    with pytest.raises(UsageError, match=r"empty\.git is a git repository whose HEAD can't be read"):
        take(tmp_path / "empty.git")


@pytest.mark.parametrize(
    ("raw", "name", "words"),
    [
        (b"Rar!\x1a\7", "a.rar", "is a RAR archive, which is not read"),
        (b"7z\xbc\xaf'\x1c", "a.7z", "is a 7-Zip archive, which is not read"),
        (b"%PDF-1.7", "a.pdf", "is none of the kinds of file that are read"),
    ],
)
def test_what_is_not_read_says_what_is(take: Take, tmp_path: Path, raw: bytes, name: str, words: str) -> None:
    """The sentence lists the kinds that can be handed in."""
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(UsageError, match=rf"{words}\. Hand in a folder, a \.zip, a \.tar\.gz, a notebook"):
        take(tmp_path / name)
