"""A YAML file that a person wrote, read strictly: what is wrong with it is told with file, line and path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml reads ten times faster than Python does, where a wheel brings it
# Every scalar stays the text that was written: `0042` is no octal number, `no` is no truth value, `23:59` is no number to base 60.
TEXT_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class YamlFile:
    """A file as a tree of plain values, which can tell the line of any `$.path`. What is wrong is raised as `blame`."""

    def __init__(self, path: Path, blame: type[Exception], *, missing: str, loader: Any = LOADER) -> None:
        """Read `path`. `missing` ends the sentence that says that there is no such file."""
        self.path, self._blame = path, blame
        try:
            reader = loader(path.read_text(encoding="utf-8"))
            self.root = reader.get_single_node()
            self.tree: Any = reader.construct_document(self.root) if self.root else None
        except FileNotFoundError:
            raise blame(f"{path} is missing: {missing}") from None
        except UnicodeDecodeError as error:
            raise blame(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise blame(f"{path}:{line}: this is not YAML: {error.problem}. A text with a colon or a quote needs quotes.") from None
        except yaml.YAMLError as error:  # a control character: it has a place and no line
            raise blame(f"{path}: this is not YAML: {' '.join(str(error).split())}.") from None
        self._refuse_repeated_keys(self.root, "$")

    def convert(self, form: Any, *, strict: bool = True) -> Any:
        """The tree as a `form` of msgspec's; strict=False reads numbers from texts."""
        try:
            return msgspec.convert(self.tree, form, strict=strict)
        except msgspec.ValidationError as error:
            sentence, _, where = str(error).rpartition(" - at ")
            raise self.error(where.strip("`") if sentence else "$", sentence or str(error)) from None

    def line(self, where: str) -> int:
        """The line (from 1) of `where`, such as `$.tasks[0].laws[1].points`, or of the nearest thing around it that exists."""
        node = self.root
        for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", where):
            if key and isinstance(node, yaml.MappingNode):
                node = next((child for name, child in node.value if name.value == key), node)
            elif index and isinstance(node, yaml.SequenceNode):
                node = node.value[int(index)]
        return node.start_mark.line + 1 if node else 1

    def error(self, where: str, sentence: str) -> Exception:
        """What to raise about the place `where`."""
        return self._blame(f"{self.path}:{self.line(where)}: `{where}`: {sentence.rstrip('.')}.")

    def _refuse_repeated_keys(self, node: yaml.Node | None, where: str) -> None:
        # YAML's loader keeps the last of two equal keys without a word.
        if isinstance(node, yaml.SequenceNode):
            for index, child in enumerate(node.value):
                self._refuse_repeated_keys(child, f"{where}[{index}]")
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, child in node.value:
                if key.value in seen:
                    raise self._blame(f"{self.path}:{key.start_mark.line + 1}: `{where}.{key.value}` stands twice; expected once.")
                seen.add(key.value)
                self._refuse_repeated_keys(child, f"{where}.{key.value}")
