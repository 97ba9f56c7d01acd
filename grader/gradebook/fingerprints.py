"""Fingerprints of Python code by winnowing (Schleimer, Wilkerson, Aiken: Winnowing, SIGMOD 2003) over the nodes of its syntax tree.

Nodes rather than letters: comments, layout, parentheses, annotations and docstrings are not there at all; names that an author chooses
(variables, functions, arguments, attributes of self) are all alike, while what they can't choose stays (operators, numbers, built-ins,
what is imported under whatever alias, methods of libraries). Every function is a sequence of its own, so that their order means nothing.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# k nodes are a fingerprint, the least of w neighbouring ones is kept: what two functions share is surely found from k + w − 1 nodes on,
# and nothing shorter than k nodes ever. A line of our solutions has 8.7 nodes, so that is four lines, and not three.
K, WINDOW = 24, 13
BUILTINS = frozenset(dir(builtins))

Node = tuple[str, int]  # what it is, its line


@dataclass(frozen=True, slots=True)
class Place:
    """The lines of a fingerprint."""

    file: str
    first: int
    last: int


def fingerprints(files: Mapping[str, str]) -> dict[int, Place]:
    """Fingerprint -> where it is first, over all files. SyntaxError if one is no Python."""
    found: dict[int, Place] = {}
    for file, source in files.items():
        for nodes in sequences(source):
            for hashed, at in winnow(hashes(nodes)):
                found.setdefault(hashed, Place(file, nodes[at][1], max(line for _, line in nodes[at : at + K])))
    return found


def all_hashes(source: str) -> set[int]:
    """Every run of K nodes, not only those that are kept: what is subtracted has to be found in other surroundings too."""
    return {hashed for nodes in sequences(source) for hashed in hashes(nodes)}


def sequences(source: str) -> list[list[Node]]:
    """The nodes of each function, and of what stands outside of them, in the order of the text."""
    tree = ast.parse(source)
    reader = _Reader(_imported(tree))
    reader.read(tree)
    return [nodes for nodes in reader.sequences if len(nodes) >= K]


def hashes(nodes: list[Node]) -> list[int]:
    """A hash of each run of K nodes, the same in every process."""
    return [_hash(" ".join(label for label, _ in nodes[at : at + K])) for at in range(len(nodes) - K + 1)]


def winnow(hashed: list[int]) -> Iterator[tuple[int, int]]:
    """(hash, place) of the least hash of each window, the last one of equals; each once."""
    kept = -1
    for start in range(max(1, len(hashed) - WINDOW + 1)):
        window = range(start, min(start + WINDOW, len(hashed)))
        least = min(window, key=lambda at: (hashed[at], -at), default=-1)
        if least > kept:
            kept = least
            yield hashed[least], least


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def _imported(tree: ast.AST) -> dict[str, str]:
    """Alias -> what is imported under it."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


class _Reader:
    """Lays a tree out as sequences, parents before their children."""

    def __init__(self, imported: Mapping[str, str]) -> None:
        self.imported = imported
        self.sequences: list[list[Node]] = [[]]
        self._open = [self.sequences[0]]  # of the functions that are being read, the innermost last
        self._line = 1

    def read(self, node: ast.AST) -> None:
        """Add `node` and what is in it to the sequence of the function that it stands in."""
        if isinstance(node, ast.Import | ast.ImportFrom | ast.expr_context) or _is_text_alone(node):
            return
        self._line = getattr(node, "lineno", self._line)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._open.append([])
            self.sequences.append(self._open[-1])
            for child in (node.args, *node.body, *node.decorator_list):
                self.read(child)
            self._open.pop()
            return
        self._open[-1].append((self._label(node), self._line))
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "type_params", "type_comment"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.read(child)

    def _label(self, node: ast.AST) -> str:
        kind = type(node).__name__
        match node:
            case ast.Name(id=name):
                return self.imported.get(name) or (name if name in BUILTINS else kind)
            case ast.Attribute(value=ast.Name(id="self")):
                return kind
            case ast.Attribute(attr=name):
                return f".{name}"
            case ast.Constant(value=str() | bytes()):
                return "text"
            case ast.Constant(value=value):
                return repr(value)
            case ast.AnnAssign():
                return "Assign"
        return kind


def _is_text_alone(node: ast.AST) -> bool:
    """A docstring, or any other text that does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
