"""The house of four floors: an import only ever goes down, and no two files import each other."""
import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
FLOORS = {"scripts": {"minigrad", "bpe", "embedding", "scripts"}, "embedding": {"minigrad", "embedding"},
          "minigrad": {"minigrad"}, "bpe": {"bpe"}}
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for package in FLOORS for path in sorted((ROOT / package).rglob("*.py"))
}


def imports(name: str) -> set[str]:
    """The project's files that file `name` imports, anywhere in it, by their dotted names."""
    found = set()
    for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively: write the package's name"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    if name.startswith("scripts"):  # scripts import each other as top-level modules: their folder is on the path
        found |= {f"scripts.{module}" for module in found}
    return {module for module in found if module in FILES or f"{module}.__init__" in FILES}


def test_an_import_only_goes_down():
    for name in FILES:
        package = name.split(".")[0]
        wrong = {module for module in imports(name) if module.split(".")[0] not in FLOORS[package]}
        assert not wrong, f"{name} may not import {wrong}: {package}/ knows only {sorted(FLOORS[package])}"


def test_no_two_files_import_each_other_directly_or_in_a_circle():
    graph = {name: {m for m in imports(name) if m in FILES and m != name} for name in FILES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]):
        assert name not in path, "a circle of imports: " + " -> ".join([*path[path.index(name):], name])
        if name not in done:
            for module in sorted(graph[name]):
                visit(module, (*path, name))
            done.add(name)

    for name in FILES:
        visit(name, ())


def test_the_packages_need_nothing_at_import_but_the_runtime_dependencies():
    import subprocess
    import sys

    code = "import sys, minigrad, bpe, embedding; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    optional = {"torch", "tiktoken", "tokenizers", "sentencepiece", "safetensors", "tqdm", "matplotlib", "scipy", "dask", "fsspec"}
    assert not optional & set(loaded)


def test_the_four_files_a_reader_reads_first_are_under_a_thousand_lines():
    lines = sum(FILES[f"minigrad.{name}"].read_text(encoding="utf-8").count("\n") for name in ("engine", "tensor", "ops", "rows"))
    assert lines < 1000
