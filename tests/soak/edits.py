"""Small random edits of the solutions, each graded: what costs no point is a hole in the laws, or says the same in other words.

    python -m tests.soak.edits --times 20 --seed 1 [--assignment collectives] [--out FILE]

Nobody has thought of these edits, unlike the mutants, so that the share of them that dies says how much of a solution the laws hold in
place. An edit changes one operator, number, condition, keyword (`strict` says nothing), bound or statement inside a region. The laws of the
region's own task are asked first, one after the other; an edit is dead with the first that fails. A survivor is for somebody to look at; it
may mean the same.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.course import load, select
from grader.pipeline import grade, opened_runs
from grader.policy import without_rules
from grader.records import Assignment
from grader.regions import find
from grader.selfcheck.trials import student_text

ROOT = Path(__file__).parents[2]
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "sum": "max", "maximum": "minimum", "minimum": "maximum", "ones": "zeros", "zeros": "ones"}


@dataclass(frozen=True)
class Edit:
    """One edit of one file."""

    assignment: str
    file: str
    region: str
    line: int
    before: str
    after: str
    source: str  # the whole file


@dataclass(frozen=True)
class Trial:
    """What came of it; `law` and `said` of the first law that failed, empty if none did."""

    edit: Edit
    law: str
    said: str
    wall_s: float


# --- edits -----------------------------------------------------------------------------------------------------------
def edits_of(assignment: Assignment, file: str) -> list[Edit]:
    """All edits of a file of the solution, in the order of its lines."""
    source = (ROOT / "solutions" / file).read_text(encoding="utf-8")
    regions = find(source, file)
    edits = []
    tree = ast.parse(source)
    plain = ast.dump(tree)
    idle = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "strict"}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr | ast.stmt) or id(node) in idle:
            continue
        region = next((each for each in regions if each.first_line < node.lineno < each.last_line), None)
        if region is None:
            continue
        for text in _other_forms(node, source):
            edited = _replaced(source, node, text)
            before, after = source.splitlines()[node.lineno - 1].strip(), edited.splitlines()[node.lineno - 1].strip()
            if _says_something_else(edited, plain):
                edits.append(Edit(assignment.name, file, region.name, node.lineno, before, after, edited))
    return sorted(edits, key=lambda edit: (edit.line, edit.after))


def _other_forms(node: ast.expr | ast.stmt, source: str) -> Iterator[str]:
    """What may stand in the place of `node`, as text."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield ast.unparse(ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators))
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield f"({ast.unparse(ast.BinOp(node.left, OPERATORS[type(op)](), node.right))})"
        case ast.BoolOp(op=op):
            yield f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield from (str(value + 1), *([str(value - 1)] if value > 0 else []))
        case ast.Subscript(slice=ast.Slice(lower, upper, step)) if lower and upper:
            yield ast.unparse(ast.Subscript(node.value, ast.Slice(lower, None, step)))
            yield ast.unparse(ast.Subscript(node.value, ast.Slice(None, upper, step)))
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            yield ast.unparse(ast.Call(ast.Name(CALLED[name]), node.args, node.keywords))
        case ast.Call(func=ast.Attribute(attr=name)) if name in ("contiguous", "clone", "detach", "float", "flatten"):
            yield ast.unparse(node.func.value)
        case ast.Call(keywords=[*_, last]) if last.arg != "strict":
            yield ast.unparse(ast.Call(node.func, node.args, node.keywords[:-1]))
        case ast.IfExp(body=body, orelse=orelse):
            yield from (f"({ast.unparse(body)})", f"({ast.unparse(orelse)})")
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield "pass"


def _replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    lines = source.encode().splitlines(keepends=True)  # columns count in bytes
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    whole = lines[first][: node.col_offset] + text.encode() + lines[last][node.end_col_offset :]
    return b"".join([*lines[:first], whole, *lines[last + 1 :]]).decode()


def _says_something_else(edited: str, plain: str) -> bool:
    try:
        return ast.dump(ast.parse(edited)) != plain
    except SyntaxError:
        return False


# --- trials ----------------------------------------------------------------------------------------------------------
def main() -> int:
    """Print a line for each edit, and at the end the shares that died."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="edits of each assignment")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--assignment", action="append", default=[])
    parser.add_argument("--out", type=Path, default=ROOT / ".grade" / "edits.json")
    options = parser.parse_args()
    course = load(ROOT)
    trials: list[Trial] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with opened_runs(course.root, None, forgets=True) as runs, tempfile.TemporaryDirectory() as workshop:

        def tried(assignment: Assignment, edit: Edit, folder: Path) -> Trial:
            folder.mkdir()
            for file in assignment.files:
                (folder / file).write_bytes((ROOT / "solutions" / file).read_bytes())
            (folder / edit.file).write_text(edit.source, encoding="utf-8")
            began_s = time.monotonic()
            own = next((task for task in assignment.tasks if edit.region in task.regions), None)
            for law in sorted(assignment.laws(), key=lambda law: own is None or law not in own.laws):
                report = grade(course, folder, [assignment], laws=(law.id,), runs=runs, until_failed=True)
                mark = next(mark for task in report.assignments[0].tasks for mark in task.laws if mark.id == law.id)
                if mark.verdict == "failed":
                    said = next(
                        (student_text(message) for message in (mark.message, *(case.message for case in mark.cases)) if message), ""
                    )
                    return Trial(edit, law.id, said, time.monotonic() - began_s)
            return Trial(edit, "", "", time.monotonic() - began_s)

        for assignment in select(course, options.assignment):
            lot = random.Random(f"{options.seed} {assignment.name}")
            every = [edit for file in assignment.files for edit in edits_of(assignment, file)]
            for number, edit in enumerate(lot.sample(every, min(options.times, len(every)))):
                trial = tried(without_rules(assignment), edit, Path(workshop) / f"{assignment.name}-{number}")
                trials.append(trial)
                print(
                    f"{edit.file}:{edit.line} {edit.before!r} -> {edit.after!r}: {trial.law or 'SURVIVES'}, {trial.wall_s:.0f} s",
                    flush=True,
                )
                options.out.write_text(json.dumps([_kept(each) for each in trials], indent=1) + "\n", encoding="utf-8")
            mine = [trial for trial in trials if trial.edit.assignment == assignment.name]
            print(f"{assignment.name}: {sum(bool(trial.law) for trial in mine)} of {len(mine)} died, {len(every)} possible", flush=True)
    print(f"{sum(bool(trial.law) for trial in trials)} of {len(trials)} died")
    return 0


def _kept(trial: Trial) -> dict[str, object]:
    kept = asdict(trial)
    del kept["edit"]["source"]
    return kept


if __name__ == "__main__":
    sys.exit(main())
