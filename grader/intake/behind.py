"""What stays behind: files that would change how Python runs, and files that an answer imports but that aren't graded."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from grader.records import Assignment

GIVEN = frozenset({"lm"})  # the grader's own copy stands beside the submission
LIBRARIES = frozenset({"torch", "triton", "numpy", "ml_dtypes", "tiktoken", "pytest", "grader"})
HOOKS = {
    "conftest.py": "pytest would run it",
    "sitecustomize.py": "Python would run it at every start",
    "usercustomize.py": "Python would run it at every start",
}


def hidden_libraries(names: Iterable[str], assignment: Assignment) -> list[str]:
    """A note for every file that would hide a library, or that Python or pytest would run of itself."""
    notes = []
    for name in names:
        module = name.removesuffix(".py")
        if name in assignment.files or name.startswith((".", "__")):
            continue
        if name in HOOKS:
            notes.append(f"{name} is left out: {HOOKS[name]}.")
        elif name.endswith(".pth"):
            notes.append(f"{name} is left out: it would change where Python finds its libraries.")
        elif module in sys.stdlib_module_names or module in LIBRARIES:
            owner = "Python's own library" if module in sys.stdlib_module_names else "the library"
            notes.append(f"{name} is left out: it would hide {owner} {module} from every import. Give it another name.")
    return notes


def imports_left_behind(text: bytes, file: str, names: Iterable[str], assignment: Assignment) -> list[str]:
    """A note for every module in the folder that `file` imports and that doesn't come along."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # the import in the rank says it with line and caret
    wanted = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    wanted |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    here = {name.removesuffix(".py"): name for name in names} if wanted else {}
    known = GIVEN | LIBRARIES | sys.stdlib_module_names | {graded.removesuffix(".py") for graded in assignment.files}
    behind = sorted({module.partition(".")[0] for module in wanted} & here.keys() - known)
    graded_files = " and ".join(assignment.files)
    return [f"{file} imports {module}, but only {graded_files} is graded: move what it needs from {here[module]}." for module in behind]
