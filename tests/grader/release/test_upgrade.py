"""A student with edits takes a newer bundle: nothing that they wrote is lost, and all else is new."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.errors import UsageError
from grader.records import Assignment
from grader.release import Upgrade, tar_gz, upgrade, zip_of
from grader.release.bundle import stamp

READY = (Assignment("rings", 1, "Rings", ("rings.py", "more.py"), ()),)
OLD = {
    "README.md": b"old\n",
    "Makefile": b"all:\n",
    "starter/rings.py": b"stub 1\n",
    "starter/more.py": b"stub\n",
    "starter/lm/gpt.py": b"gpt 1\n",
    "grader/a.py": b"a\n",
    "grader/old/b.py": b"b\n",
    "tests/public/test_rings.py": b"case 1\n",
    "notebooks/rings.ipynb": b"{}\n",
}
CHANGED = {
    "README.md": b"new\n",
    "starter/rings.py": b"stub 2\n",
    "starter/lm/gpt.py": b"gpt 2\n",
    "tests/public/test_rings.py": b"case 2\n",
}
NEW = {path: content for path, content in (OLD | CHANGED).items() if path != "grader/old/b.py"} | {"grader/c.py": b"c\n"}
Laid = Callable[..., Path]


def released(files: dict[str, bytes], version: str, name: str = "course") -> dict[str, bytes]:
    """Files with their stamp."""
    return files | {"release.json": stamp(name, version, files, READY)}


@pytest.fixture
def lay(tmp_path: Path) -> Laid:
    """Write files into a folder: by default the old release, as a student has it."""

    def laid(name: str = "mine", files: dict[str, bytes] | None = None) -> Path:
        for path, content in (released(OLD, "1") if files is None else files).items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(content)
        return tmp_path / name

    return laid


def contents(root: Path) -> dict[str, bytes]:
    """Every file below `root`."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def taken(root: Path, source: Path) -> Upgrade:
    """An upgrade that did something."""
    done = upgrade(root, source)
    assert done is not None
    return done


@pytest.mark.parametrize("kind", ["folder", "tar.gz", "zip"])
def test_an_untouched_course_becomes_the_new_release(tmp_path: Path, lay: Laid, kind: str) -> None:
    """From an archive or its unpacked folder: the very files of the new one, and nothing of the old one besides."""
    root, files = lay(), released(NEW, "2")
    source = lay("new", files) if kind == "folder" else tmp_path / f"new.{kind}"
    if kind != "folder":
        source.write_bytes(tar_gz(files, "course-2") if kind == "tar.gz" else zip_of(files))
    assert next(taken(root, source).sentences()) == "Version 2: 5 files are new, 1 are gone."
    assert contents(root) == files and not (root / "grader/old").exists()
    assert upgrade(root, source) is None


def test_what_a_student_wrote_survives(lay: Laid) -> None:
    """Answers stand where they stood, edits of our files are kept aside, and files of their own are not touched."""
    root = lay()
    mine = {"starter/rings.py": b"my ring\n", "starter/more.py": b"my more\n", "notebooks/rings.ipynb": b'{"mine": 1}\n',
            "Makefile": b"all: mine\n", "README.md": b"my notes\n", "starter/lm/gpt.py": b"my gpt\n", "grader/old/b.py": b"my b\n",
            "starter/helper.py": b"x\n", ".grade/latest/report.json": b"{}\n"}  # fmt: skip
    lay("mine", mine)
    done = taken(root, lay("new", released(NEW, "2")))
    now = contents(root)
    for path in ("starter/rings.py", "starter/more.py", "notebooks/rings.ipynb", "grader/old/b.py", "starter/helper.py",
                 ".grade/latest/report.json"):  # fmt: skip
        assert now[path] == mine[path]
    assert now["upgrade-2/starter/rings.py"] == b"stub 2\n"
    assert "upgrade-2/starter/more.py" not in now, "its starter has not changed"
    assert (now["README.md"], now["starter/lm/gpt.py"]) == (b"new\n", b"gpt 2\n")
    assert all(now[f"upgrade-2/yours/{path}"] == mine[path] for path in ("Makefile", "README.md", "starter/lm/gpt.py"))
    assert now["tests/public/test_rings.py"] == b"case 2\n" and now["Makefile"] == b"all:\n"
    told = "\n".join(done.sentences())
    assert all(path in told for path in ("upgrade-2/starter/rings.py", "upgrade-2/yours/README.md", "grader/old/b.py is in no release"))
    assert set(mine.values()) <= set(now.values())


def test_a_second_upgrade_keeps_what_the_first_put_aside(lay: Laid) -> None:
    """Each has a folder of its own; an answer that was kept once is kept again."""
    root = lay()
    lay("mine", {"README.md": b"notes 1\n", "starter/rings.py": b"my ring\n"})
    taken(root, lay("new", released(NEW, "2")))
    lay("mine", {"README.md": b"notes 2\n"})
    taken(root, lay("newer", released(NEW | {"README.md": b"newer\n"}, "2")))
    now = contents(root)
    assert (now["upgrade-2/yours/README.md"], now["upgrade-2-2/yours/README.md"]) == (b"notes 1\n", b"notes 2\n")
    assert now["starter/rings.py"] == b"my ring\n" and now["README.md"] == b"newer\n"


def test_line_ends_that_git_changed_are_no_edit(lay: Laid) -> None:
    """A checkout on Windows is an untouched course."""
    root = lay()
    lay("mine", {path: content.replace(b"\n", b"\r\n") for path, content in OLD.items()})
    assert not taken(root, lay("new", released(NEW, "2"))).yours_aside
    assert not (root / "upgrade-2").exists()


def test_an_upgrade_that_was_killed_can_be_run_again(lay: Laid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it stopped, the second run ends in the new release, with everything the student wrote."""
    room = importlib.import_module("grader.release.upgrade")  # the package's name `upgrade` is the function
    write, new = room._write, lay("new", released(NEW, "2"))
    for stop in range(7):
        root = lay(f"mine-{stop}", released(OLD, "1") | {"README.md": b"my notes\n", "starter/rings.py": b"my ring\n"})
        left = iter(range(stop))

        def dying(place: Path, content: bytes, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            write(place, content)

        monkeypatch.setattr(room, "_write", dying)
        with pytest.raises(KeyboardInterrupt):
            upgrade(root, new)
        monkeypatch.setattr(room, "_write", write)
        upgrade(root, new)
        now = contents(root)
        assert json.loads(now["release.json"])["version"] == "2" and now["README.md"] == b"new\n"
        assert {b"my notes\n", b"my ring\n", b"stub 2\n"} <= set(now.values())


def test_what_is_no_release_changes_nothing(tmp_path: Path, lay: Laid) -> None:
    """A damaged, foreign or hostile one, or none at all: one sentence, and every file as it was."""
    root = lay()
    before = contents(root)
    stamped = json.loads(released(NEW, "2")["release.json"])
    evil = stamped | {"files": {"../evil.py": "0" * 64}}
    damaged = released(NEW, "2") | {"grader/a.py": b"other\n"}
    (tmp_path / "notes.tar.gz").write_text("where to fetch the release")
    (tmp_path / "half.tar.gz").write_bytes(tar_gz(released(NEW, "2"), "course")[:-99])
    for source, words in [
        (Path(), "Which release"),  # make upgrade without FROM, in the course's own folder
        (tmp_path / "none.tar.gz", "There is no"),
        (tmp_path / "notes.tar.gz", r"is no archive, or was not downloaded whole \([^\n]+\)\. Try"),
        (tmp_path / "half.tar.gz", "was not downloaded whole"),
        (lay("empty", {"a": b""}), r"has no release\.json"),
        (lay("foreign", released(NEW, "2", "another")), "is a release of another"),
        (lay("damaged", damaged), r"grader/a\.py is another; nothing was changed"),
        (lay("evil", {"release.json": json.dumps(evil).encode()}), "leads outside of the course"),
    ]:
        with pytest.raises(UsageError, match=words):
            upgrade(root, source)
    assert contents(root) == before
    with pytest.raises(UsageError, match="which you want to upgrade, has no"):
        upgrade(lay("no_release", {"a": b""}), lay("new", released(NEW, "2")))
