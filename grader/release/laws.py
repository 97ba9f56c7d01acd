"""tests/laws/ → the part of it that public cases use.

Public and hidden cases share what a law means. A function or a table that only hidden cases use would tell what they ask, so it stays
behind: what ships is what the public test files reach, name by name. Statements that define nothing are kept, and so is a whole module
that is used otherwise than by its names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import CourseError

ROOM = "tests.laws"
Name = tuple[str, str]  # module and name; the name "*" is the whole module
WHOLE = "*"


@dataclass(slots=True)
class Module:
    """A file of tests/laws/, or a public test file: its statements, and what its imports mean."""

    name: str
    source: str
    statements: list[ast.stmt]
    defined: dict[str, list[int]] = field(default_factory=dict)  # name -> the statements that define it
    meant: dict[str, Name] = field(default_factory=dict)  # name here -> what it is, for imports from the room
    kept: set[int] = field(default_factory=set)


def reached(root: Path, public: Iterable[Path]) -> tuple[dict[str, str], dict[str, str]]:
    """For the public test files: every law file by its path below `root`, as it ships; and what was left out of each.

    Raises CourseError for an import of a law module that isn't there.
    """
    room = root / "tests" / "laws"
    modules = {_module_name(root, path): _parsed(_module_name(root, path), path) for path in sorted(room.rglob("*.py"))}
    starts = [_parsed(f"public:{path.stem}", path) for path in public]
    for module in (*modules.values(), *starts):
        _resolve(module, modules)
    waiting = [name for start in starts for statement in start.statements for name in _used(statement, start)]
    seen: set[Name] = set()
    while waiting:
        wanted = waiting.pop()
        if wanted not in seen:
            seen.add(wanted)
            waiting += _keep(wanted, modules)
    shipped = {_path(root, name): _written(module) for name, module in modules.items() if module.kept}
    left = {_path(root, name): _left_out(module) for name, module in modules.items()}
    return shipped, {path: text for path, text in left.items() if text.strip()}


# --- reading ---------------------------------------------------------------------------------------------------------
def _module_name(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _path(root: Path, name: str) -> str:
    path = name.replace(".", "/")
    return f"{path}.py" if (root / f"{path}.py").is_file() else f"{path}/__init__.py"


def _parsed(name: str, path: Path) -> Module:
    source = path.read_text(encoding="utf-8")
    module = Module(name, source, ast.parse(source).body)
    for index, statement in enumerate(module.statements):
        for defined in _definitions(statement):
            module.defined.setdefault(defined, []).append(index)
    return module


def _definitions(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement defines; none for one that is kept in any case."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", "") != "__future__":
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)


def _resolve(module: Module, modules: dict[str, Module]) -> None:
    """Find what each name that is imported from the room means."""
    for statement in module.statements:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(ROOM):
            for alias in statement.names:
                inner = f"{statement.module}.{alias.name}"
                meaning = (inner, "") if inner in modules else (str(statement.module), alias.name)
                if meaning[0] not in modules or (meaning[1] and meaning[1] not in modules[meaning[0]].defined):
                    raise CourseError(f"{module.name} imports {alias.name} from {statement.module}, which has no such name.")
                module.meant[alias.asname or alias.name] = meaning
        elif isinstance(statement, ast.Import) and any(alias.name.startswith(ROOM) for alias in statement.names):
            raise CourseError(f"{module.name}: write `from {ROOM} import ...`, so that a release can tell what is used.")


# --- reaching --------------------------------------------------------------------------------------------------------
def _used(statement: ast.AST, module: Module) -> Iterator[Name]:
    """What a statement uses of the room and of its own module. A module that is not asked for a name by a dot is used as a whole."""
    asked: set[int] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and _is_module(node.value.id, module):
            asked.add(id(node.value))
            yield module.meant[node.value.id][0], node.attr
        elif isinstance(node, ast.Name) and id(node) not in asked:
            if _is_module(node.id, module):
                yield module.meant[node.id][0], WHOLE
            elif node.id in module.meant:
                yield module.meant[node.id]
            yield module.name, node.id


def _is_module(name: str, module: Module) -> bool:
    return name in module.meant and not module.meant[name][1]


def _keep(wanted: Name, modules: dict[str, Module]) -> Iterator[Name]:
    """Keep what `wanted` names; yields what that uses in turn."""
    module = modules.get(wanted[0])
    if module is None:
        return
    always = {index for index, statement in enumerate(module.statements) if not any(_definitions(statement))}
    indices = set(range(len(module.statements))) if wanted[1] == WHOLE else always | set(module.defined.get(wanted[1], ()))
    for index in sorted(indices - module.kept):
        module.kept.add(index)
        if not isinstance(module.statements[index], ast.Import | ast.ImportFrom):
            yield from _used(module.statements[index], module)


# --- writing ---------------------------------------------------------------------------------------------------------
def _written(module: Module) -> str:
    """The module without what nobody reaches; a comment goes with the statement below it."""
    lines = module.source.splitlines()
    names = {node.id for index in module.kept for node in ast.walk(module.statements[index]) if isinstance(node, ast.Name)}
    for statement in reversed(module.statements):
        index = module.statements.index(statement)
        first, last = _span(statement, lines)
        if isinstance(statement, ast.Import | ast.ImportFrom) and any(_definitions(statement)):
            kept = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) in names]
            if len(kept) < len(statement.names):
                statement.names = kept
                lines[first:last] = [ast.unparse(statement)] if kept else []
        elif index not in module.kept:
            lines[first:last] = []
            while first < len(lines) and not lines[first].strip() and (first == 0 or not lines[first - 1].strip()):
                del lines[first]
    return "\n".join(lines).rstrip("\n") + "\n"


def _left_out(module: Module) -> str:
    """The statements that stay behind, as text."""
    lines = module.source.splitlines()
    spans = [_span(statement, lines) for index, statement in enumerate(module.statements) if index not in module.kept]
    imports = {_span(statement, lines) for statement in module.statements if isinstance(statement, ast.Import | ast.ImportFrom)}
    return "\n".join("\n".join(lines[first:last]) for first, last in spans if (first, last) not in imports)


def _span(statement: ast.stmt, lines: list[str]) -> tuple[int, int]:
    """The statement's lines, with its decorators and the comment right above it: [first, last), from 0."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while first and lines[first - 1].startswith("#") and not lines[first - 1].startswith("# ---"):
        first -= 1
    return first, statement.end_lineno or statement.lineno
