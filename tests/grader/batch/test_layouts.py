"""Downloads of each platform are recognised by what only it writes, whatever students called their things."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.batch.gather import path_of
from grader.batch.layouts import HandIn, look_into
from grader.batch.people import Person
from grader.errors import UsageError
from tests.grader.batch.downloads import LAYOUTS, Files, Student, zipped

PLATFORMS = [name for name in LAYOUTS if name != "plain"]
ID_OF = {"gradescope": "id", "moodle": "number", "canvas": "number", "github": "login", "plain": "id"}


def touch(folder: Path, *names: str) -> Path:
    """Empty files in `folder`; a name that ends with a slash is a folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).mkdir() if name.endswith("/") else (folder / name).write_bytes(b"")
    return folder


@pytest.mark.parametrize(("layout", "place"), [(name, ".") for name in LAYOUTS] + [(name, "download") for name in PLATFORMS])
def test_every_layout_is_recognised(layout: str, place: str, handed: dict[Student, Files], tmp_path: Path) -> None:
    """Everybody is found under the id that the platform has, also in a folder of its own; what macOS leaves is not looked at."""
    LAYOUTS[layout](tmp_path / "in" / place, handed)
    touch(tmp_path / "in", "__MACOSX/._x", ".DS_Store")
    found = look_into(tmp_path / "in")
    assert (found.layout, found.ignored) == (layout, ())
    assert {hand_in.by[0].id for hand_in in found.hand_ins} == {str(getattr(student, ID_OF[layout])) for student in handed}


def test_a_group_of_gradescope_is_everybody_in_it(tmp_path: Path) -> None:
    """All submitters, and when it came; folders that the table doesn't name, and names without a folder, are told."""
    (tmp_path / "submission_metadata.yml").write_text(
        "submission_7:\n  :submitters:\n  - :name: Ada\n    :sid: '07'\n    :email: a@example.org\n  - :name: Bo\n    :sid:\n"
        "    :email: b@example.org\n  :created_at: 2026-11-30 09:10:11.123456789 Z\n"
        "submission_8:\n  :submitters:\n  - :name: Cy\n    :sid: '1'\n"
    )
    found = look_into(touch(tmp_path, "submission_7/", "submission_9/"))
    assert found.hand_ins == (
        HandIn((Person("07", "Ada", "a@example.org"), Person("b@example.org", "Bo", "b@example.org")), tmp_path / "submission_7",
               "2026-11-30T09:10:11.123456+00:00"),
    )  # fmt: skip
    assert found.ignored == ("submission_9", "submission_8 (only in submission_metadata.yml)")


@pytest.mark.parametrize("text", ["[1, 2]", "a: {b", "a: {}", "a: {:submitters: []}"])
def test_a_table_that_gradescope_did_not_write_is_named(text: str, tmp_path: Path) -> None:
    """One sentence with the file's name, whatever is wrong in it."""
    (tmp_path / "submission_metadata.yml").write_text(text)
    with pytest.raises(UsageError, match=r"submission_metadata\.yml is not what Gradescope writes"):
        look_into(tmp_path)


def test_canvas_files_of_one_student_come_together(tmp_path: Path) -> None:
    """Under the names that the student gave them, in a folder that is made anew each time; a late one is no other student."""
    names = "lovelaceada_LATE_12_900_sums.py", "lovelaceada_LATE_12_901_more-2.py", "o_13_x_13_902_sums.py", "class list.pdf"
    found = look_into(touch(tmp_path / "in", *names))
    assert (found.layout, found.ignored) == ("canvas", ("class list.pdf",))
    assert [(each.by[0].id, each.by[0].name) for each in found.hand_ins] == [("12", "lovelaceada"), ("13", "o_13_x")]
    for _ in range(2):
        gathered = path_of(found.hand_ins[0], tmp_path / "out")
        assert sorted(path.name for path in gathered.iterdir()) == ["more-2.py", "sums.py"]


def test_moodle_is_recognised_without_folders_and_without_names(tmp_path: Path) -> None:
    """One file for each, and blind marking, in which Moodle calls everybody a participant. Files come before what was typed into the
    box; who has only typed has handed in all the same."""
    blind = "Participant_18_assignsubmission_"
    file, typed = "Ada L_17_assignsubmission_file_sums.py", "Participant_19_assignsubmission_onlinetext_"
    found = look_into(touch(tmp_path, file, f"{blind}file_/", f"{blind}onlinetext_/", f"{typed}/"))
    assert found.layout == "moodle"
    assert [hand_in.path.name for hand_in in found.hand_ins] == [file, f"{blind}file_", typed]
    assert [hand_in.by for hand_in in found.hand_ins[:2]] == [
        (Person("17", "Ada L", aliases=("Participant 17",)),), (Person("18", "Participant", aliases=("Participant 18",)),)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "names", "people"),
    [
        ("in", ("rings-ada-l", "rings-bo"), {"ada-l": (), "bo": ()}),
        ("in", ("rings-x-ada", "rings-x-bo"), {"ada": ("x-ada",), "bo": ("x-bo",)}),  # x may belong to the users' names
        ("rings-submissions", ("rings-ada-l",), {"ada-l": ()}),
        ("in", ("rings-ada", "rings-ada-2"), {"ada": (), "ada-2": ()}),
    ],
)
def test_users_of_github_are_what_the_clones_do_not_share(
    folder: str, names: tuple[str, ...], people: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    """Both an assignment's and a user's name may have dashes, so what could be part of the user's is an alias."""
    found = look_into(touch(tmp_path / folder, *(f"{name}/.git/HEAD" for name in names)))
    assert found.layout == "github"
    assert {hand_in.by[0].id: hand_in.by[0].aliases for hand_in in found.hand_ins} == people


def test_anything_else_is_one_thing_for_each_student(tmp_path: Path) -> None:
    """Folders, archives, single files; the name is the student's. What nobody hands in is told."""
    found = look_into(touch(tmp_path, "ada/", "bo.tar.gz", "Cy Young.zip", "dan.ipynb", "roster.csv"))
    assert (found.layout, found.ignored) == ("plain", ("roster.csv",))
    assert [hand_in.by[0].id for hand_in in found.hand_ins] == ["Cy Young", "ada", "bo", "dan"]


@pytest.mark.parametrize(
    ("names", "layout", "sentence"),
    [
        ((), "", "is empty"),
        (("a.pdf",), "", "nothing that a student could have handed in"),
        (("ada/",), "canvas", "holds no canvas download"),
    ],
)
def test_what_is_no_download_is_refused(names: tuple[str, ...], layout: str, sentence: str, tmp_path: Path) -> None:
    """With a sentence that says what is there."""
    (tmp_path / "in").mkdir()
    with pytest.raises(UsageError, match=sentence):
        look_into(touch(tmp_path / "in", *names), layout)
    with pytest.raises(UsageError, match="can't be read"):
        look_into(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("work.zip",), "work.zip"),
        (("__MACOSX/._work.zip", "deep/work.tar.gz"), "deep/work.tar.gz"),
        (("work.zip", "sums.py"), ""),
        (("work.zip", "again.zip"), ""),
    ],
)
def test_an_archive_in_a_folder_is_what_was_handed_in(names: tuple[str, ...], chosen: str, tmp_path: Path) -> None:
    """Platforms make a folder for each student; one archive alone in it is meant, two are a question, and beside a source it isn't."""
    folder = touch(tmp_path / "ada", *names)
    assert path_of(HandIn((Person("ada"),), folder), tmp_path / "out") == (folder / chosen if chosen else folder)


def test_a_zip_within_a_zip_is_opened(tmp_path: Path) -> None:
    """Students zip the zip that they were given, and platforms zip that."""
    inner = zipped({"sums.py": b"ONE = 1\n"}, "my work")
    (tmp_path / "ada.zip").write_bytes(zipped({"work.zip": inner}, "ada"))
    assert path_of(HandIn((Person("ada"),), tmp_path / "ada.zip"), tmp_path / "out").read_bytes() == inner
