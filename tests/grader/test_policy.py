"""The policy finds what is forbidden by whatever name, leaves honest files alone, and says what a student needs to know."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.course import Course, find_root, load, select
from grader.errors import CourseError
from grader.observe.observer import Observer
from grader.pipeline import grade, opened_runs, taken_in
from grader.policy import EVERYWHERE, check, hits, hits_in, names, without_rules
from grader.records import Rule, Submission
from grader.regions import read_header
from grader.selfcheck.overlays import load_overlay, overlay_paths

ROOT = find_root(Path(__file__))
RULES = (
    Rule("collective", ("torch.distributed.all_reduce", "torch.distributed.nn"), "Write it yourself."),
    Rule("attention", ("torch.nn.MultiheadAttention", "torch.nn.functional.scaled_dot_product_attention"), "Write it yourself."),
    *EVERYWHERE,
)


@pytest.fixture(scope="module")
def course() -> Course:
    """The course of this repository."""
    return load(ROOT)


def rules_hit(source: str, permitted: tuple[Rule, ...] = ()) -> list[tuple[str, int]]:
    """Rule and line of every hit."""
    return [(hit.rule, hit.line) for hit in hits_in(source, "rings.py", RULES, permitted, {"rings"})]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import torch\ntorch.distributed.all_reduce(x)", "collective"),
        ("import torch.distributed\ntorch.distributed.all_reduce(x)", "collective"),
        ("import torch.distributed as dist\ndist.all_reduce(x)", "collective"),
        ("from torch import distributed\ndistributed.all_reduce(x)", "collective"),
        ("pass\nfrom torch.distributed import all_reduce as sum_up", "collective"),
        ("from torch.distributed import *\nall_reduce(x)", "collective"),
        ("pass\nimport torch.distributed.nn.functional", "collective"),
        ("pass\nfrom torch.distributed import nn", "collective"),
        ("import torch.distributed.distributed_c10d as c\nc.all_reduce(x)", "collective"),
        ("import torch.distributed as dist; d = dist\nd.all_reduce(x)", "collective"),
        ("import torch.distributed as dist\nf = dist.all_reduce", "collective"),
        ("import torch.distributed as dist\ngetattr(dist, 'all_reduce')(x)", "collective"),
        ("import torch.distributed as dist\ngetattr(dist, 'all_' + 'reduce')(x)", "collective"),
        ("import torch.distributed as dist; name = 'reduce'\ngetattr(dist, f'all_{name}')(x)", "collective"),
        ("import torch.distributed as dist\nvars(dist)['all_reduce'](x)", "collective"),
        ("import torch.distributed as dist\ndist.__dict__['all_reduce'](x)", "collective"),
        ("import torch\ntorch.load(path, weights_only=False)", "code-from-text"),
        ("import torch; told = 0\ntorch.serialization.load(path, weights_only=told)", "code-from-text"),
        ("import torch\ntorch.load(path, pickle_module=another)", "code-from-text"),
        ("import numpy as np\nnp.load(path, allow_pickle=True)", "code-from-text"),
        ("import torch\ntorch.serialization.add_safe_globals([f])", "code-from-text"),
        ("import torch\ntorch.jit.load(path)", "code-from-text"),
        ("import torch\ntorch.ops.load_library(path)", "code-from-text"),
        ("import pkgutil as p\np.resolve_name('torch.distributed:all_reduce')", "code-from-text"),
        ("import typing\ntyping.get_type_hints(f)", "code-from-text"),
        ("import torch\ntorch.UntypedStorage.from_file(path)", "raw-memory"),
        ("import asyncio\nasyncio.create_subprocess_exec('ls')", "processes"),
        ("import torch.distributed as dist\ntype(dist.group.WORLD).judges_line.post({})", "the-grader"),
        ("import torch.distributed.distributed_c10d as c\ngetattr(c.ProcessGroupGloo, 'judges_line')", "the-grader"),
        ("import importlib\nimportlib.import_module('torch.distributed').all_reduce(x)", "collective"),
        ("from importlib import import_module as load; d = load('torch.distributed')\nd.all_reduce(x)", "collective"),
        ("pass\n__import__('torch').distributed.all_reduce(x)", "collective"),
        ("pass\n__import__('torch.distributed', fromlist=['x']).all_reduce(x)", "collective"),
        ("import torch.distributed as dist\nx = (dist if x else None).all_reduce", "collective"),
        ("def f():\n    import torch.distributed as d; return d.all_reduce", "collective"),
        ("import torch.nn.functional as F\nF.scaled_dot_product_attention(q, k, v)", "attention"),
        ("pass\nfrom torch.nn.modules.activation import MultiheadAttention", "attention"),
        ("import torch\ntorch.nn.modules.activation.MultiheadAttention", "attention"),
        ("import torch.overrides as o\no.torch.nn.functional.scaled_dot_product_attention", "attention"),
        ("import operator, torch.nn.functional as F\noperator.attrgetter('scaled_dot_product_attention')(F)", "attention"),
        ("import torch.nn.functional as F\ngetattr(F, ''.join(parts))", "unreadable"),
        ("import torch.nn.functional as F, functools\nfunctools.reduce(getattr, parts, F)", "unreadable"),
        ("import torch.nn.functional as F\nF.__getattribute__(name)", "unreadable"),
        ("import torch.nn.functional as F\n[f for f in F.__dict__.values()]", "unreadable"),
        ("import torch.nn.functional as F\nvars(F)[name]", "unreadable"),
        ("import torch.nn.functional as F\ndict(vars(F))", "unreadable"),
        ("import operator\noperator.attrgetter(name)(x)", "unreadable"),
        ("import torch.nn.functional as F\nmatch F:\n    case object(relu=f): pass", "unreadable"),
        ("match error:\n    case object(tb_frame=f): pass", "frames"),
        ("pass\n__builtins__['exec']('')", "code-from-text"),
        ("import tempfile\ntempfile._os.fork()", "processes"),
        ("import logging\nlogging.sys._getframe()", "frames"),
        ("pass\nfrom torch.utils.data import os; os.kill(1, 9)", "processes"),
        ("pass\nexec('x = 1')", "code-from-text"),
        ("import builtins\nbuiltins.eval('1')", "code-from-text"),
        ("pass\nimport ctypes", "raw-memory"),
        ("import sys\nsys._getframe(1)", "frames"),
        ("pass\nerror.__traceback__.tb_frame", "frames"),
        ("pass\ngetattr(frame, 'f_' + 'back')", "frames"),
        ("import gc\ngc.get_objects()", "garbage-collector"),
        ("import os\nos.fork()", "processes"),
        ("pass\nfrom subprocess import run", "processes"),
        ("import os\nos._exit(0)", "leaving"),
        ("pass\nraise SystemExit", "leaving"),
        ("pass\nimport atexit", "leaving"),
        ("pass\nimport socket", "network"),
        ("pass\nx.share_memory_()", "shared-memory"),
        ("import sys\nsys.modules['grader']", "the-grader"),
        ("import torch\ntorch.allclose = lambda *_: True", "patched-library"),
        ("import torch\nx, torch.Tensor.__eq__ = 1, f", "patched-library"),
        ("import time\nsetattr(time, 'perf_counter', f)", "patched-library"),
        ("__name__ = '__main__'\nif __name__ == '__main__': exec('')", "code-from-text"),
    ],
)
def test_what_is_forbidden_is_found_by_whatever_name(source: str, rule: str) -> None:
    """Imports, aliases, attribute chains, getattr and import_module with literals: the rule is named, and the line."""
    found = rules_hit(source)
    assert (rule, 2) in found, found


@pytest.mark.parametrize(
    "source",
    [
        "import torch.distributed as dist\ndist.isend(x, 1).wait()",
        "def all_reduce(x): ...\nall_reduce(1)",
        "def f(dist): return dist.all_reduce(1)",
        "import torch.distributed as dist\ndef f(dist):\n    return dist.all_reduce(1)",
        "import torch.distributed as dist\nclass A:\n    all_reduce = 1\n    def f(self): return self.all_reduce",
        "for socket in range(3): print(socket)",
        "model.eval(); pattern.compile(); work.exit",
        "import re\nre.compile('x')",
        "import torch\ntorch.compile(f); torch.backends.cuda.matmul.allow_tf32 = False",
        "import gc\ngc.collect()",
        "import sys\nif __name__ == '__main__':\n    sys.exit(main())",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket",
        "import rings\nrings.sum_up = 1",
        "import torch.distributednn",
        "import operator\nsorted(x, key=operator.attrgetter('size', 'name'))",
        "def f(x, name): return getattr(x, name), vars(x), x.__dict__[name], dict(x.__dict__)",
        "import torch\ngetattr(torch, 'float16' if x else 'bfloat16')",
        "match x:\n    case Point(x=0, y=y): print(y)",
        "class A:\n    def __getattr__(self, name): return getattr(self.inner, name)",
        "import os.path, logging\nos.path.join('a'); logging.getLogger().exception('x')",
        "this is not Python",
        "x = 'torch.distributed.all_reduce(x)'  # a text, and no call",
    ],
)
def test_what_only_looks_alike_is_left_alone(source: str) -> None:
    """One's own names, methods of the same name, texts, settings and what never runs when a submission is graded are no hits."""
    assert rules_hit(source) == []


@pytest.mark.parametrize("deep", ["+".join(["1"] * 700), "+".join(["1"] * 30_000), "f" + "()" * 700, "-" * 700 + "1"], ids=len)
def test_nothing_hides_behind_what_is_nested_too_deeply_to_be_read(deep: str) -> None:
    """Python runs such an expression; a reader that gives up over it must not let all else in the file pass."""
    assert rules_hit(f"import ctypes\nx = lambda f: {deep}\n") in ([("unreadable", 1)], [("raw-memory", 1)])
    assert hits_in(f"import ctypes\nx = lambda f: {deep}\n", "rings.py", ()) == []


STEPS_FOR_A_PART = 60  # three rounds of a fresh look at each, at most twenty when names grow
LETTERS = st.sampled_from("abc")
MEANINGS = st.recursive(
    LETTERS | st.sampled_from(["'x'", "torch", "getattr"]),
    lambda inner: (
        st.builds("({} if c else {})".format, inner, inner)
        | st.builds("{}.{}".format, inner, LETTERS)
        | st.builds("{} + {}".format, inner, inner)
        | st.builds("f'{{{}}}{{{}}}'".format, LETTERS, LETTERS)
        | st.builds("{}({}, {})".format, inner, inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.builds("{} = {}".format, LETTERS, MEANINGS), min_size=1, max_size=30))
@example(["im = im"] * 7)
@example(["c = torch", *["c = c.a", "c = c.b", "c = c.d", "c = c.e"]])
@example(["a = 'x' if b else 'y'", "c = " + " + ".join("a" * 40)])
@example(["a = torch if b else builtins", "c = " + "getattr(" * 18 + "a" + ", 'x' if b else 'y')" * 18])
def test_names_that_stand_for_each_other_take_no_more_steps_than_the_file_has_parts(lines: list[str]) -> None:
    """Found by a fuzzer: seven lines `im = im` and the like were followed 7 ** 20 times. Counted, not timed."""
    source = "\n".join(["import torch", *lines])
    with pytest.MonkeyPatch.context() as patched:
        num_steps = 0

        def counted(*arguments: object) -> set[str]:
            nonlocal num_steps
            num_steps += 1
            return followed(*arguments)

        followed = names.names
        patched.setattr(names, "names", counted)
        patched.setattr(check, "names", counted)
        hits_in(source, "rings.py", EVERYWHERE)
    assert num_steps <= STEPS_FOR_A_PART * sum(1 for _ in ast.walk(ast.parse(source)))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("b = a\na = b\nimport ctypes as b\na.cast", [("raw-memory", 1)]),
        ("x = torch\nx = x.distributed\nimport torch\nx.all_reduce", [("collective", 4)]),
        ("".join(f"a{i + 1} = a{i}\n" for i in range(30)) + "import os as a0\na30.fork()", [("processes", 32)]),
        ("line = 'a'\nline = line + 'b'\nline = line + 'c'\nline = line + 'd'", []),
        ("f = torch.nn\nf = f.relu\nf = f.gelu\nimport torch\nf(x)", []),
        ("import torch as x\n" + "".join(f"x = x.a{i}\n" for i in range(301)) + "x.distributed", [("unreadable", 1)]),
    ],
)
def test_names_that_stand_for_each_other_are_followed_all_the_same(source: str, found: list[tuple[str, int]]) -> None:
    """In circles, in any order, along any chain; texts that grow are one's own affair; what can't be followed is said to be so."""
    hit = rules_hit(source)
    assert set(found) <= set(hit) and bool(hit) == bool(found), hit


def test_the_course_file_may_except_names_from_a_rule() -> None:
    """`permitted:` lifts a rule for the names it gives and for no others."""
    source = "import os\nos.fork()\nos.kill(1, 2)"
    assert rules_hit(source, (Rule("processes", ("os.fork",), "It is what this assignment is about."),)) == [("processes", 3)]
    assert len(rules_hit(source, (Rule("network", ("os",), "Another rule."),))) == 2


def test_an_exception_from_no_rule_is_the_courses_mistake(tmp_path: Path) -> None:
    """A typing error in `permitted:` would leave a rule in force, or a rule of the course could be redefined."""
    spec = (ROOT / "assignments" / "collectives" / "assignment.yaml").read_text()
    folder = tmp_path / "assignments" / "collectives"
    folder.mkdir(parents=True)
    for extra, sentence in (
        ("permitted:\n  - {id: proceses, names: [os.fork], reason: none}\n", "no rule is called 'proceses'"),
        ("permitted:\n  - {id: processes, names: [os.fork], reason: }\n", "Expected `str`"),
    ):
        (folder / "assignment.yaml").write_text(spec + extra)
        with pytest.raises(CourseError, match=sentence):
            load(tmp_path)
    (folder / "assignment.yaml").write_text(spec.replace("id: library-collective", "id: processes"))
    with pytest.raises(CourseError, match="a rule of the whole course"):
        load(tmp_path)


def test_every_honest_file_of_the_course_keeps_the_rules(course: Course) -> None:
    """Solutions, starters and variants use nothing forbidden, but a variant what its header says."""
    for each in course.assignments:
        for room in ("solutions", "starter"):
            files = dict.fromkeys(each.files, "")
            assert hits(each, Submission(str(ROOT / room), room, files)) == ()
        for path in overlay_paths(course, "variants", each):
            said = read_header(path.read_text(), path.name).policy
            found = load_overlay(course, each, path).rules_broken(each) if said or "import" in path.read_text() else []
            assert " ".join(found) == said, path


def test_a_hit_is_told_with_rule_line_and_reason_and_nothing_is_run(course: Course, tmp_path: Path) -> None:
    """Every law of the assignment fails with one account of it, which names all lines; no rank is started."""
    (assignment,) = select(course, ["collectives"])
    source = (ROOT / "solutions" / "collectives.py").read_text()
    shortcut = "\n\ndef shortcut(tensor):\n    dist.all_reduce(tensor)\n    import gc; gc.get_objects()\n"
    (tmp_path / "collectives.py").write_text(source + shortcut)
    line = source.count("\n") + 4
    with opened_runs(ROOT, None) as runs:
        runs.replay = True  # a request that reached the ranks would be the machine's fault
        report = grade(course, tmp_path, [assignment], runs=runs)
    laws = [law for task in report.assignments[0].tasks for law in task.laws]
    assert report.earned == 0 and {law.verdict for law in laws} <= {"failed", "not_judged"}
    message = laws[0].message
    assert message is not None and message.seen.startswith(f"collectives.py:{line} uses torch.distributed.all_reduce, and 1 more")
    assert f"collectives.py:{line + 1} gc.get_objects (garbage-collector)" in message.where
    assert "rule library-collective: " in message.diagnosis and "isend" in message.diagnosis
    hidden = [case.message for law in laws for case in law.cases if case.hidden and case.message]
    assert hidden and all("was not run" in message.diagnosis for message in hidden)


def test_without_rules_the_laws_judge_alone(course: Course, tmp_path: Path) -> None:
    """Wrong answers of our own that call the library are judged by the laws that name them: the policy doesn't stand in between."""
    (assignment,) = select(course, ["collectives"])
    (tmp_path / "collectives.py").write_text("import torch.distributed as dist\nring_all_reduce = dist.all_reduce\n")
    with opened_runs(ROOT, None) as runs:
        runs.replay = True
        for each, count in ((assignment, 1), (without_rules(assignment), 0)):
            with taken_in(tmp_path, [each], runs) as observer:
                assert isinstance(observer, Observer) and len(observer.submissions["collectives"].hits) == count
    assert replace(assignment, forbidden=()) == without_rules(assignment)
