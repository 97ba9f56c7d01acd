"""What a name in a file may stand for: imports, aliases, attribute chains and the usual detours, followed without running anything.

A name is looked up as Python does it, in the function, the functions around it and the file. It may stand for several things, since
nobody knows which assignment ran last; parameters, loop variables and what calls return stand for nothing that is known.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from grader.policy.everywhere import SYNONYMS

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
NewScope = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
BUILTINS = frozenset(dir(builtins))
DEPTH_LIMIT = 20  # of expressions in expressions
ROUNDS_LIMIT = 20  # of aliases of aliases, whatever the order in which they stand
MOST_NAMES, MOST_PARTS = 300, 6  # that a name may stand for, and of each: beyond, `x = x.a` would go on for ever
MOST_TEXTS, MOST_LETTERS = 100, 80


class TangledError(Exception):
    """Some name may stand for too many things to follow them."""


@dataclass(slots=True)
class Scope:
    """The names that a function, a class or the file binds."""

    node: ast.AST
    outer: Scope | None = None
    imported: dict[str, set[str]] = field(default_factory=dict)
    assigned: dict[str, list[ast.expr]] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # bound to something unknown
    stars: set[str] = field(default_factory=set)  # modules of `from module import *`
    _named: dict[str, set[str]] | None = None
    _spelt: dict[str, set[str]] | None = None

    def home_of(self, name: str) -> Scope | None:
        """The scope, from here outwards, that binds `name`; methods don't see the names of their class."""
        scope: Scope | None = self
        while scope is not None:
            if (scope is self or not isinstance(scope.node, ast.ClassDef)) and scope.binds(name):
                return scope
            scope = scope.outer
        return None

    def binds(self, name: str) -> bool:
        return name in self.imported or name in self.assigned or name in self.others

    def named(self, name: str) -> set[str]:
        """The dotted names that `name`, which is bound here, may stand for. TangledError if they are too many."""
        if self._named is None:
            self._named = {bound: set(self.imported.get(bound, ())) for bound in self.imported.keys() | self.assigned.keys()}
            if not _settle(self._named, self.assigned, lambda value: _short(names(value, self)), MOST_NAMES):
                raise TangledError
        return self._named.get(name, set())

    def spelt(self, name: str) -> set[str]:
        """The strings that `name`, which is bound here, may be; empty if they are too many."""
        if self._spelt is None:
            self._spelt = {bound: set() for bound in self.assigned}
            _settle(self._spelt, self.assigned, lambda value: texts(value, self), MOST_TEXTS)
        return self._spelt.get(name, set())

    def all_stars(self) -> set[str]:
        return self.stars | (self.outer.all_stars() if self.outer else set())


def _settle(known: dict[str, set[str]], assigned: dict[str, list[ast.expr]], meaning: Callable[[ast.expr], set[str]], most: int) -> bool:
    """Add to `known` what is assigned, in rounds, until nothing is new: each costs as much as the file is long, also where names go in
    circles. False, and nothing is known of that name, where one has more than `most` meanings.
    """
    tangled: set[str] = set()
    for number in range(ROUNDS_LIMIT):
        before = sum(map(len, known.values()))
        for name, values in reversed(assigned.items()) if number % 2 else assigned.items():  # a chain either way takes a round or two
            for value in values if name not in tangled else ():
                known[name] |= meaning(value)
                if len(known[name]) > most:  # asked after each: one assignment may double what there is
                    tangled.add(name)
                    known[name].clear()
                    break
        if before == sum(map(len, known.values())):
            break
    return not tangled


def _short(found: Iterable[str]) -> set[str]:
    return {name for name in found if name.count(".") < MOST_PARTS}


def scope_of(node: ast.AST, outer: Scope | None = None) -> Scope:
    """The bindings of `node` itself, without those of functions and classes inside it."""
    scope = Scope(node, outer)
    if isinstance(node, Function):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        scope.others.update(argument.arg for argument in every if argument)
    for inner in _own_nodes(node):
        _bind(inner, scope)
    return scope


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        inner = waiting.pop()
        yield inner
        if not isinstance(inner, NewScope):
            waiting.extend(ast.iter_child_nodes(inner))


def _bind(node: ast.AST, scope: Scope) -> None:
    match node:
        case ast.Import():
            for alias in node.names:
                scope.imported.setdefault(alias.asname or alias.name.partition(".")[0], set()).add(
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        case ast.ImportFrom(module=str(module), level=0):
            for alias in node.names:
                if alias.name == "*":
                    scope.stars.add(module)
                else:
                    scope.imported.setdefault(alias.asname or alias.name, set()).add(f"{module}.{alias.name}")
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Name):
                    scope.assigned.setdefault(target.id, []).append(value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) | ast.NamedExpr(target=ast.Name(id=name), value=value):
            scope.assigned.setdefault(name, []).append(value)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope.others.add(name)
        case ast.Name(id=name, ctx=ast.Store()):
            scope.others.add(name)
        case ast.ExceptHandler(name=str(name)):
            scope.others.add(name)
        case _:
            pass


def canonical(name: str) -> str:
    """The usual name of what `name` names."""
    for elsewhere, usual in SYNONYMS.items():
        if name == elsewhere or name.startswith(elsewhere + "."):
            return usual + name[len(elsewhere) :]
    return name


def names(node: ast.expr, scope: Scope, depth: int = 0) -> set[str]:
    """The dotted names that `node` may stand for; empty if that is not known."""
    if depth > DEPTH_LIMIT:
        return set()
    match node:
        case ast.Name(id=name):
            return {canonical(found) for found in _names_of_name(name, scope)}
        case ast.Attribute(value=base, attr=attribute):
            return {canonical(f"{found}.{attribute}") for found in names(base, scope, depth + 1)}
        case ast.Call():
            return {canonical(found) for found in _names_of_call(node, scope, depth + 1)}
        case ast.Subscript(value=base, slice=key):
            return _names_of_entry(names(base, scope, depth + 1), texts(key, scope, depth + 1))
        case ast.IfExp(body=one, orelse=other):
            return names(one, scope, depth + 1) | names(other, scope, depth + 1)
        case ast.BoolOp(values=values):
            return {found for value in values for found in names(value, scope, depth + 1)}
        case ast.NamedExpr(value=value):
            return names(value, scope, depth + 1)
    return set()


def _names_of_name(name: str, scope: Scope) -> set[str]:
    home = scope.home_of(name)
    if home is None:
        everywhere = {f"builtins.{name}"} if name in BUILTINS else {"builtins"} if name == "__builtins__" else set()
        return everywhere or {f"{module}.{name}" for module in scope.all_stars()}
    return home.named(name)


def _names_of_call(node: ast.Call, scope: Scope, depth: int) -> set[str]:
    """import_module("x"), __import__("x"), getattr(x, "y"), vars(x), sys.modules.get("x"): by their literal arguments."""
    called = names(node.func, scope, depth)
    first = node.args[0] if node.args else None
    if first is None:
        return set()
    if isinstance(node.func, ast.Call) and names(node.func.func, scope, depth) & PARTS_BY_NAME and node.func.args:
        return {f"{base}.{path}" for base in names(first, scope, depth) for path in texts(node.func.args[0], scope, depth)}
    if called & {"importlib.import_module", "builtins.__import__", "importlib.__import__", "sys.modules.get"}:
        found = texts(first, scope, depth)
        is_top = "importlib.import_module" not in called and "sys.modules.get" not in called and not _has_fromlist(node)
        return {name.partition(".")[0] if is_top else name for name in found}
    if "builtins.getattr" in called and len(node.args) > 1:
        bases, attributes = names(first, scope, depth), texts(node.args[1], scope, depth)
        if len(bases) * len(attributes) > MOST_NAMES * MOST_TEXTS:
            raise TangledError
        return {f"{base}.{attribute}" for base in bases for attribute in attributes}
    if "builtins.vars" in called:
        return {f"{base}.__dict__" for base in names(first, scope, depth)}
    return {name[: -len(".__dict__.get")] + f".{text}" for name in called if name.endswith(".__dict__.get")
            for text in texts(first, scope, depth)}  # fmt: skip


PARTS_BY_NAME = {"operator.attrgetter", "operator.methodcaller"}


def taken_unread(node: ast.Call, scope: Scope) -> set[str]:
    """Libraries whose parts this call takes by names that can't be read: `getattr(torch, name)`, `reduce(getattr, …)`, `dict(vars(os))`."""
    called = names(node.func, scope)
    if "builtins.getattr" in called and len(node.args) > 1 and not texts(node.args[1], scope):
        return names(node.args[0], scope)
    if called & PARTS_BY_NAME and node.args and not texts(node.args[0], scope):
        return called & PARTS_BY_NAME
    handed = {name for argument in node.args for name in names(argument, scope)}
    return {name for name in handed if name == "builtins.getattr" or name.endswith(".__dict__")}


def _has_fromlist(node: ast.Call) -> bool:
    return len(node.args) > 3 or any(keyword.arg == "fromlist" for keyword in node.keywords)


def _names_of_entry(bases: set[str], keys: set[str]) -> set[str]:
    found = set()
    for base in bases:
        if base == "sys.modules":
            found |= keys
        elif base == "builtins":  # in an imported module `__builtins__` is a dictionary
            found |= {f"builtins.{key}" for key in keys}
        elif base.endswith(".__dict__"):
            found |= {f"{base.removesuffix('.__dict__')}.{key}" for key in keys}
    return {canonical(name) for name in found}


def texts(node: ast.expr, scope: Scope, depth: int = 0) -> set[str]:
    """The strings that `node` may be, where it is put together from literals."""
    if depth > DEPTH_LIMIT:
        return set()
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined(texts(left, scope, depth + 1), texts(right, scope, depth + 1))
        case ast.JoinedStr(values=values):
            parts = [value.value if isinstance(value, ast.FormattedValue) else value for value in values]
            joined = {""}
            for part in parts:
                joined = _joined(joined, texts(part, scope, depth + 1))
            return joined
        case ast.Name(id=name):
            home = scope.home_of(name)
            return home.spelt(name) if home else set()
        case ast.IfExp(body=one, orelse=other):
            return texts(one, scope, depth + 1) | texts(other, scope, depth + 1)
    return set()


def _joined(firsts: set[str], seconds: set[str]) -> set[str]:
    """Each of the first before each of the second; what is longer than any name that matters is left out, and too many are unknown."""
    found = {first + second for first in firsts for second in seconds} if len(firsts) * len(seconds) <= MOST_TEXTS else set()
    return {text for text in found if len(text) <= MOST_LETTERS}
