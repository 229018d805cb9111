"""The picture of the house: who imports whom, computed from the sources.

Every import counts: at the top, inside functions, and for type checkers only. The
floors of `.importlinter` are the same rule for imports at run time.
"""

import ast
import configparser
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.paths import REPOSITORY

PACKAGES = ("lvbert_tf", "common", "training", "export", "serving")
ROOMS_OF_TRAINING = REPOSITORY / "training"
LONGEST_FILE = 350
MEDIAN_FILE = 150


def _modules(root: Path, packages: tuple[str, ...]) -> dict[str, Path]:
    """Returns the dotted names of all modules below some packages."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for package in packages
        for path in (root / package).rglob("*.py")
    }


def _imported(path: Path, modules: Set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Returns module to the modules that it imports, packages' own files aside."""
    return {
        name: {m for m in _imported(path, modules.keys()) if m in modules} - {name}
        for name, path in modules.items()
        if path.name != "__init__.py"
    }


def _circle(graph: Mapping[str, Set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle_runs_through_the_modules() -> None:
    graph = _graph(_modules(REPOSITORY, PACKAGES))
    assert len(graph) > 200
    assert _circle(graph) == []


def test_a_circle_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("from room import b\n")
    (tmp_path / "room" / "b.py").write_text("def f():\n    import room.a\n")
    modules = _modules(tmp_path, ("room",))
    assert set(_circle(_graph(modules))) == {"room.a", "room.b"}


def _floors() -> dict[str, int]:
    """Returns room of `training` to its floor, the lowest being the greatest."""
    contracts = configparser.ConfigParser()
    contracts.read(REPOSITORY / ".importlinter")
    layers = contracts["importlinter:contract:training"]["layers"].split("\n")
    return {
        room.strip(): floor
        for floor, line in enumerate(filter(None, layers))
        for room in line.split("|")
    }


def test_no_import_in_training_runs_upward() -> None:
    floors = _floors()
    graph = _graph(_modules(REPOSITORY, ("training",)))
    rooms = {name: name.split(".")[1] for name in graph}
    upward = [
        f"{name} -> {target}"
        for name, targets in graph.items()
        for target in targets
        if target in rooms
        and rooms[target] != rooms[name]
        and floors[rooms[target]] <= floors[rooms[name]]
    ]
    assert upward == []


def test_training_is_made_of_rooms() -> None:
    loose = {path.name for path in ROOMS_OF_TRAINING.glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}


def test_files_of_training_fit_on_a_few_screens() -> None:
    lengths = {
        str(path.relative_to(ROOMS_OF_TRAINING)): len(path.read_text().splitlines())
        for path in ROOMS_OF_TRAINING.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert sorted(lengths.values())[len(lengths) // 2] <= MEDIAN_FILE
    assert {k: v for k, v in lengths.items() if v > LONGEST_FILE} == {}


def test_no_test_module_imports_another() -> None:
    modules = _modules(REPOSITORY, ("tests",))
    tests = {name for name in modules if name.rpartition(".")[2].startswith("test_")}
    graph = _graph(modules)
    assert len(tests) > 100
    assert [f"{name} -> {t}" for name in graph for t in graph[name] & tests] == []
