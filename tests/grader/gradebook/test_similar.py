"""Similarity: a copy is found under any names and in any order, two honest answers to one stub are not, and nothing becomes a mark."""

from __future__ import annotations

import ast
import stat
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.course import Course, load
from grader.gradebook import fingerprints as prints
from grader.gradebook.book import Book, open_book
from grader.gradebook.fingerprints import WINDOW, K, all_hashes, fingerprints, hashes, winnow
from grader.gradebook.similar import LEAST_SHARE, LEAST_SHARED, Likeness, compare, write_table
from grader.ledger import Row
from grader.regions import find
from tests.grader.gradebook.conftest import write_class

ROOT = Path(__file__).resolve().parents[3]
FILE = "data_parallel.py"


@pytest.fixture(scope="module")
def course() -> Course:
    """This one."""
    return load(ROOT)


def solution() -> str:
    """A right answer."""
    return (ROOT / "solutions" / FILE).read_text(encoding="utf-8")


def another() -> str:
    """Another right answer, by another hand."""
    return (ROOT / "tests/variants/data_parallel/another_hand.py").read_text(encoding="utf-8")


class Renamed(ast.NodeTransformer):
    """Every variable, function, argument and attribute of self under another name."""

    def __init__(self, tree: ast.AST) -> None:
        kept = {alias.asname or alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names}  # fmt: skip
        self.kept = kept | prints.BUILTINS | {"self"}

    def _new(self, name: str) -> str:
        return name if name in self.kept else f"x_{name[::-1]}"

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A variable."""
        return replace_node(node, id=self._new(node.id))

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """An argument; its annotation goes."""
        return replace_node(node, arg=self._new(node.arg), annotation=None)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function; its docstring goes, and what it returns."""
        self.generic_visit(node)
        body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
        return replace_node(node, name=self._new(node.name), body=body, returns=None)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute of self; those of others belong to libraries."""
        self.generic_visit(node)
        is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
        return replace_node(node, attr=self._new(node.attr)) if is_own else node


def replace_node(node: ast.AST, **changed: object) -> ast.AST:
    """The node with some fields changed."""
    for name, value in changed.items():
        setattr(node, name, value)
    return node


def disguised(source: str) -> str:
    """The same program: names changed, comments and annotations gone, functions and methods in the opposite order, laid out anew."""
    tree = Renamed(parsed := ast.parse(source)).visit(parsed)
    for body in (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)):
        places = [place for place, node in enumerate(body) if isinstance(node, ast.FunctionDef)]
        for place, node in zip(places, [body[place] for place in reversed(places)], strict=True):
            body[place] = node
    return ast.unparse(tree)


def likeness(course: Course, folder: Path, texts: dict[str, str], *, shared: tuple[str, ...] = ()) -> tuple[Book, Likeness]:
    """What comes of comparing a class that handed these in; `shared`: who hands in as a group with the first of them."""
    for student, text in texts.items():
        (folder / "work" / student).mkdir(parents=True)
        if text:
            (folder / "work" / student / FILE).write_text(text, encoding="utf-8")
    rows = [Row(student, path=shared[0] if student in shared else student, state="marked", marks={"data_parallel": (1, 100)})
            for student in texts]  # fmt: skip
    book = open_book([write_class(folder / "class", rows)], course.assignments)
    return book, compare(course, book, folder / "work", course.assignments)


def test_a_disguised_copy_is_found_and_honest_answers_are_not(course: Course, tmp_path: Path) -> None:
    """Renamed, reordered, laid out anew: all of it is still shared. An answer by another hand is like neither."""
    starter = (ROOT / "starter" / FILE).read_text(encoding="utf-8")
    texts = {"ada": solution(), "copy": disguised(solution()), "honest": another(), "lazy": starter}
    book, found = likeness(course, tmp_path, texts)
    (pair,) = found.pairs
    assert (pair.students, pair.share) == (("ada", "copy"), 1.0)
    assert pair.lines[0].startswith("data_parallel.py:")
    assert found.num_compared == 4
    path = write_table(book, found)
    assert path.read_text().splitlines()[1].startswith("data_parallel,ada,copy,1.00,")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_many_copies_do_not_hide_each_other(course: Course, tmp_path: Path) -> None:
    """What everybody has is nobody's, unless it is one text many times over."""
    _, found = likeness(course, tmp_path, {f"s{number}": solution() if number % 2 else disguised(solution()) for number in range(8)})
    assert {pair.students for pair in found.pairs} == {("s0", f"s{number}") for number in range(1, 8)}


def test_a_copied_part_is_found_with_its_lines(course: Course, tmp_path: Path) -> None:
    """One function of another's, in a file of one's own: its share of the shorter text, and where."""
    text = solution()
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    part = max(classes, key=lambda node: (node.end_lineno or 0) - node.lineno)
    alone = "import torch\nimport torch.distributed as dist\n" + ast.unparse(part)
    _, found = likeness(course, tmp_path, {"ada": text, "bob": alone})
    (pair,) = found.pairs
    first, last = (int(number) for number in pair.lines[0].rpartition(":")[2].partition(",")[0].split("-"))
    assert part.lineno <= first <= last <= (part.end_lineno or 0)


def test_a_group_is_not_compared_with_itself(course: Course, tmp_path: Path) -> None:
    """They handed in together."""
    _, found = likeness(course, tmp_path, {"ada": solution(), "bob": solution()}, shared=("ada", "bob"))
    assert (found.pairs, found.num_compared) == ([], 1)


def test_what_can_not_be_read_is_named(course: Course, tmp_path: Path) -> None:
    """No Python: the others are compared. Who handed in nothing for an assignment has nothing to compare."""
    _, found = likeness(course, tmp_path, {"ada": solution(), "bob": "def broken(:\n", "eve": ""})
    assert [sentence.partition(",")[0] for sentence in found.left_out] == ["bob"]
    assert found.num_compared == 1


def test_the_line_is_where_the_corpus_says(course: Course) -> None:
    """Wrong answers written from handout and stub alone stay below it; those made by editing the solution come above it."""
    assert max(_shares(course, "flash_attention")) < LEAST_SHARE
    edited = _shares(course, "context_parallel")
    assert sum(share >= LEAST_SHARE for share in edited) > len(edited) * 0.7


def _shares(course: Course, name: str) -> list[float]:
    """How much of each mutant's regions is the solution's, where enough is shared to be told."""
    (assignment,) = [each for each in course.assignments if each.name == name]
    texts = {file: (ROOT / "solutions" / file).read_text(encoding="utf-8") for file in assignment.files}
    ours = {region.name: "\n".join(region.body) for file, text in texts.items() for region in find(text, file)}
    given = {hashed for file in assignment.files for hashed in all_hashes((ROOT / "starter" / file).read_text(encoding="utf-8"))}
    shares = []
    for path in sorted((ROOT / "tests/mutants" / name).glob("*.py")):
        regions = find(path.read_text(encoding="utf-8"), path.name)
        bodies = {each.name: "\n".join(each.body) for each in regions}
        try:
            mine = fingerprints({part: _as_function(body) for part, body in bodies.items()}).keys() - given
            theirs = fingerprints({part: _as_function(ours[part]) for part in bodies}).keys() - given
        except SyntaxError:
            continue  # a region that is no function's body
        if min(len(mine), len(theirs)) >= LEAST_SHARED:
            num_shared = len(mine & theirs)
            shares.append(num_shared / min(len(mine), len(theirs)) if num_shared >= LEAST_SHARED else 0.0)
    assert len(shares) > 20
    return shares


def _as_function(body: str) -> str:
    return f"def region():\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 30), min_size=WINDOW, max_size=80), *[st.lists(st.integers(0, 30), max_size=20)] * 2)
def test_what_is_as_long_as_the_guarantee_is_always_found(common: list[int], before: list[int], after: list[int]) -> None:
    """Winnowing's theorem: two texts that share a window of hashes share a fingerprint, whatever surrounds it."""
    alone, among = ({hashed for hashed, _ in winnow(each)} for each in (common, [*before, *common, *after]))
    assert alone & among


def test_a_fingerprint_is_never_shorter_than_k_nodes() -> None:
    """Shorter than that, everybody writes the same."""
    assert hashes([("x", 1)] * (K - 1)) == []
    assert fingerprints({"a.py": "x = 1\n"}) == {}


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("import torch.nn as nn\ndef f(a):\n    return nn.relu(a) {}", "from torch import nn\ndef g(b):\n    return nn.relu(b) {}", True),
        ("def f(a: int) -> int:\n    '''Doc.'''\n    return (a) {}", "def g(b):\n    return b {}", True),
        ("def f(a):\n    return a.all_reduce() {}", "def f(a):\n    return a.all_gather() {}", False),
        ("def f(a):\n    return a - 1 {}", "def f(a):\n    return a - 2 {}", False),
        ("def f(a):\n    return max(a) {}", "def f(a):\n    return min(a) {}", False),
    ],
)  # fmt: skip
def test_what_an_author_chooses_is_alike_and_what_works_otherwise_is_not(one: str, other: str, is_same: bool) -> None:
    """Names, aliases, annotations, parentheses and docstrings make no difference; operations do."""
    more = "+ a0 * a1 - a2 / a3 + a4 * a5 - a6 / a7 + a8 * a9"
    found = [fingerprints({"a.py": text.format(more)}).keys() for text in (one, other)]
    assert found[0] and (found[0] == found[1]) == is_same


def test_a_row_without_a_hand_in_is_not_looked_for(course: Course, tmp_path: Path, book_of: Callable[..., Book]) -> None:
    """Who is missing has nothing to compare."""
    rows = [Row("ada", path="ada", state="marked", marks={"data_parallel": (1, 100)}), replace(Row("bob"), state="missing")]
    (tmp_path / "work" / "ada").mkdir(parents=True)
    (tmp_path / "work" / "ada" / FILE).write_text(solution())
    book = open_book([write_class(tmp_path / "class", rows)], course.assignments)
    assert compare(course, book, tmp_path / "work", course.assignments).num_compared == 1
