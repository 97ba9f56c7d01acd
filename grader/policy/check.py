"""A submission's files beside the rules: what they use that is forbidden, line by line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.policy.everywhere import PATCHED, SETTINGS, UNPICKLING, UNREADABLE
from grader.policy.names import PARTS_BY_NAME, NewScope, Scope, TangledError, canonical, names, scope_of, taken_unread, texts
from grader.records import Assignment, Hit, Rule, Submission

TANGLED = "What can't be read can't be checked. Give different things different names."
TANGLED_RULE = Rule("unreadable", (), "What can't be read can't be checked. Write the names of a library's parts out, where they are used.")
LISTED = re.compile(r"\.(__dict__\.(?!get$)\w+|__getattribute__)$")
NUM_HITS_LIMIT = 20  # of one submission: more than a student will read


def without_rules(assignment: Assignment) -> Assignment:
    """`assignment` for an answer of our own that breaks a rule on purpose, and is to be judged by the laws."""
    return replace(assignment, forbidden=())


def hits(assignment: Assignment, submission: Submission) -> tuple[Hit, ...]:
    """What `submission` uses and may not, in the order of its files and lines; each name once a line."""
    own = {file.removesuffix(".py") for file in assignment.files}
    found: list[Hit] = []
    for file in assignment.files:
        if file in submission.files:
            source = (Path(submission.folder) / file).read_text(encoding="utf-8")
            found += hits_in(source, file, assignment.forbidden, assignment.permitted, own)
    return tuple(found[:NUM_HITS_LIMIT])


def hits_in(source: str, file: str, rules: Sequence[Rule], permitted: Sequence[Rule] = (), own: set[str] | None = None) -> list[Hit]:
    """The hits of one file. None in what is not Python: importing it says so, with line and caret."""
    try:
        found = list(_Reader(rules, own or set()).read(ast.parse(source)))
    except (SyntaxError, ValueError):
        return []
    except (RecursionError, MemoryError):  # Python can run what is nested too deeply to be read: that would hide anything
        return [Hit(UNREADABLE.id, file, 1, "expressions nested too deeply to be read", UNREADABLE.reason, "")] if rules else []
    except TangledError:
        return [Hit(UNREADABLE.id, file, 1, "a name that may stand for too many things", TANGLED, "")] if rules else []
    lines = source.splitlines()
    unique = {(rule.id, line, name): rule for rule, line, name in found if not _is_permitted(rule, name, permitted)}
    return [
        Hit(rule.id, file, line, name, rule.reason, lines[line - 1].strip() if line <= len(lines) else "")
        for (_, line, name), rule in sorted(unique.items(), key=lambda item: item[0][1])
    ]


def _is_permitted(rule: Rule, name: str, permitted: Sequence[Rule]) -> bool:
    return any(each.id == rule.id and _covers(each.forbids, name) for each in permitted)


def _covers(forbidden: Sequence[str], name: str) -> bool:
    """Whether it begins with one of these, or goes through one: what a module has imported is in it too (`shutil.os`, `random._os`)."""
    last, whole = "." + name.rpartition(".")[2], f".{name}."
    plain = whole.replace("._", ".")
    return any(each == last if each.startswith(".") else f".{each}." in whole or f".{each}." in plain for each in forbidden)


Found = tuple[Rule, int, str]  # rule, line, dotted name


@dataclass(slots=True)
class _Reader:
    """Reads a tree from the outside inwards, so that of a chain of attributes the whole is reported and not its beginning too."""

    rules: Sequence[Rule]
    own: set[str]  # modules of the submission itself

    def read(self, tree: ast.Module) -> Iterator[Found]:
        """Everything forbidden in the file."""
        yield from self._below(tree, scope_of(tree))

    def _below(self, node: ast.AST, scope: Scope) -> Iterator[Found]:
        for child in ast.iter_child_nodes(node):
            yield from self._at(child, scope)

    def _at(self, node: ast.AST, scope: Scope) -> Iterator[Found]:
        if isinstance(node, ast.If) and _never_runs(node.test, scope):
            for child in node.orelse:
                yield from self._at(child, scope)
            return
        here = [*self._imports(node), *self._patches(node, scope), *self._uses(node, scope), *self._unread(node, scope)]
        yield from here
        if isinstance(node, ast.Attribute | ast.Name) and here:
            return
        yield from self._below(node, scope_of(node, scope) if isinstance(node, NewScope) else scope)

    def _imports(self, node: ast.AST) -> Iterator[Found]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from self._named(canonical(alias.name), node)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield from self._named(canonical(node.module if alias.name == "*" else f"{node.module}.{alias.name}"), node)

    def _uses(self, node: ast.AST, scope: Scope) -> Iterator[Found]:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            known = names(node, scope)
            for name in sorted(known):
                yield from self._named(name, node)
            attributes = {node.attr} if isinstance(node, ast.Attribute) else _asked_for(node, scope)
            for attribute in attributes if not known else ():
                yield from self._named(f"….{attribute}", node)

    def _unread(self, node: ast.AST, scope: Scope) -> Iterator[Found]:
        """What takes a part of a library by a name that stands nowhere; what takes parts of anything by a name that does."""
        if isinstance(node, ast.MatchClass):
            for attribute in node.kwd_attrs:
                yield from self._named(f"….{attribute}", node)
        elif isinstance(node, ast.Match) and names(node.subject, scope) and any(_has_parts(case.pattern) for case in node.cases):
            yield from self._tangled(names(node.subject, scope), node.subject)
        elif isinstance(node, ast.Call):
            yield from self._tangled(taken_unread(node, scope), node)
            for word in node.keywords:
                is_plain = isinstance(word.value, ast.Constant) and word.value.value is UNPICKLING.get(word.arg or "")
                if word.arg in UNPICKLING and not is_plain:
                    yield from self._named("pickle", node)
        elif isinstance(node, ast.Subscript) and not texts(node.slice, scope):
            yield from self._tangled({name for name in names(node.value, scope) if name.endswith(".__dict__")}, node)
        elif isinstance(node, ast.Attribute):
            yield from self._tangled({name for name in names(node, scope) if LISTED.search(name)}, node)

    def _tangled(self, found: set[str], node: ast.expr) -> Iterator[Found]:
        roots = {name: name.partition(".")[0] for name in found}
        yield from ((TANGLED_RULE, node.lineno, name) for name, root in sorted(roots.items()) if root not in self.own and self.rules)

    def _patches(self, node: ast.AST, scope: Scope) -> Iterator[Found]:
        """An assignment to a library's attribute, or `setattr` on one."""
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            for name in names(node, scope):
                yield from self._patched(name, node)
        elif isinstance(node, ast.Call) and names(node.func, scope) & {"builtins.setattr", "builtins.delattr"} and node.args:
            for name in names(node.args[0], scope):
                yield from self._patched(name, node)

    def _patched(self, name: str, node: ast.expr) -> Iterator[Found]:
        root = name.partition(".")[0]
        if root not in self.own and not _covers(SETTINGS, name):
            yield from ((rule, node.lineno, name) for rule in self.rules if rule.id == PATCHED)

    def _named(self, name: str, node: ast.stmt | ast.expr | ast.pattern) -> Iterator[Found]:
        if name.partition(".")[0] not in self.own:
            yield from ((rule, node.lineno, name) for rule in self.rules if _covers(rule.forbids, name))


def _asked_for(node: ast.AST, scope: Scope) -> set[str]:
    """The attribute's name in `getattr(anything, "name")` and in `attrgetter("name")`."""
    if not isinstance(node, ast.Call) or not node.args:
        return set()
    called = names(node.func, scope)
    if len(node.args) > 1 and "builtins.getattr" in called:
        return texts(node.args[1], scope)
    return texts(node.args[0], scope) if called & PARTS_BY_NAME else set()


def _has_parts(pattern: ast.pattern) -> bool:
    return any(isinstance(inner, ast.MatchClass) and inner.kwd_attrs for inner in ast.walk(pattern))


def _never_runs(test: ast.expr, scope: Scope) -> bool:
    """`if TYPE_CHECKING:` and `if __name__ == "__main__":`, unless the file gives these names another meaning."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return scope.home_of("__name__") is None
    return names(test, scope) == {"typing.TYPE_CHECKING"}
