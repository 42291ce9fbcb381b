"""The package runs no code from files, no program and no shell: whoever adds a way to do so must list it here."""

import ast
import builtins
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[1] / "src" / "pencil"

# Calls and classes that turn data into code, run programs, or write the files of an archive.
PATTERNS = """
    eval exec compile __import__ importlib.import_module importlib.util.* importlib.machinery.* runpy.* code.* codeop.*
    importlib.metadata.entry_points
    pickle.* _pickle.* marshal.* shelve.* copyreg.* dill.* cloudpickle.* joblib.* yaml.*
    torch.load torch.jit.load torch.package.* torch.hub.* torch.utils.cpp_extension.* torch.ops.load_library
    subprocess.* pty.* ctypes.* cffi.* asyncio.create_subprocess_* shutil.unpack_archive logging.config.*
    multiprocessing.get_context multiprocessing.Process multiprocessing.Pool multiprocessing.managers.*
    multiprocessing.connection.Listener multiprocessing.connection.Client
    os.system os.popen os.exec* os.spawn* os.posix_spawn* os.fork* os.startfile
"""
RISKY = PATTERNS.split()
METHODS = {"extract", "extractall", "unpack_archive"}  # of tarfile and zipfile
ARGUMENTS = {"allow_pickle": False, "weights_only": True, "trust_remote_code": False, "shell": False}
ALWAYS_SAID = {
    "numpy.load": "allow_pickle",
    "numpy.lib.format.read_array": "allow_pickle",
    "torch.load": "weights_only",
}

REVIEWED = {
    ("__init__.py", "importlib.import_module"): "rooms of the package, from a table of its own",
    (
        "imports.py",
        "importlib.import_module",
    ): "optional packages, named in the code; the user's own module, named by the user",
    ("imports.py", "importlib.metadata.entry_points"): "kinds of data that the user installed as packages",
    ("bench/workers.py", "multiprocessing.get_context"): "our own workers, which are sent our own settings",
    ("engine/index.py", "pickle.Unpickler"): "knows the records of an index and refuses every other name",
    (
        "data/readers/cifar.py",
        "pickle.Unpickler",
    ): "answers the names of a CIFAR file with stand-ins and refuses the rest",
    ("embed/packages.py", "torch.load"): "weights_only=True, the weights of an installed package",
    ("data/label_files.py", "torch.load"): "weights_only=True, with numpy's rebuilding of arrays let through",
}


class Uses(ast.NodeVisitor):
    """Every use of an imported or built-in name in a module, spelled in full."""

    def __init__(self) -> None:
        self.imported: dict[str, str] = {}
        self.used: list[tuple[str, ast.AST]] = []

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            self.imported[name.asname or name.name.partition(".")[0]] = (
                name.name if name.asname else name.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for name in node.names:
            if not node.level:
                self.imported[name.asname or name.name] = f"{node.module}.{name.name}"
                self.used.append((f"{node.module}.{name.name}", node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if (name := self.spelled(node)) is not None:
            self.used.append((name, node))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and (node.id in self.imported or hasattr(builtins, node.id)):
            self.used.append((self.imported.get(node.id, node.id), node))

    def spelled(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return self.imported.get(node.id)
        if isinstance(node, ast.Attribute) and (owner := self.spelled(node.value)) is not None:
            # pickle._Unpickler is pickle.Unpickler, written in Python.
            return f"{owner}.{node.attr}".removeprefix("builtins.").replace("pickle._", "pickle.")
        return None


def _risky(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in RISKY)


def _arguments(call: ast.Call, name: str | None) -> Iterator[str]:
    """Arguments that open a door, and calls that leave it to a default."""
    said = {keyword.arg: keyword.value for keyword in call.keywords}
    for argument, safe in ARGUMENTS.items():
        value = said.get(argument)
        if value is not None and not (isinstance(value, ast.Constant) and value.value is safe):
            yield f"{argument}={ast.unparse(value)}"
    if name in ALWAYS_SAID and ALWAYS_SAID[name] not in said:
        yield f"{name} without {ALWAYS_SAID[name]}"


def found(text: str) -> set[str]:
    """What a module does that must be reviewed."""
    tree, names = ast.parse(text), Uses()
    names.visit(tree)
    seen = {name for name, _ in names.used if _risky(name)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in METHODS:
            seen.add(f".{call.func.attr}")
        seen.update(_arguments(call, names.spelled(call.func)))
    return seen


def test_only_reviewed_places_can_run_code_or_programs():
    modules = sorted(SOURCE.rglob("*.py"))
    assert len(modules) > 100
    places = {
        (path.relative_to(SOURCE).as_posix(), name) for path in modules for name in found(path.read_text())
    }
    assert sorted(places - set(REVIEWED)) == [], "review it, then list it with the reason"
    assert sorted(set(REVIEWED) - places) == [], "gone: take it off the list"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import pickle\npickle.load(file)", "pickle.load"),
        ("import pickle as p\np.loads(data)", "pickle.loads"),
        ("from pickle import loads as read\nread(data)", "pickle.loads"),
        ("def f():\n    import pickle\n    g = pickle.loads\n    return g(b'')", "pickle.loads"),
        ("import torch\ntorch.load(path, weights_only=True)", "torch.load"),
        ("import torch\ntorch.load(path)", "torch.load without weights_only"),
        ("import torch\ntorch.load(path, weights_only=flag)", "weights_only=flag"),
        ("import numpy as np\nnp.load(path)", "numpy.load without allow_pickle"),
        ("import numpy as np\nnp.load(path, allow_pickle=True)", "allow_pickle=True"),
        ("eval('1')", "eval"),
        ("exec(text)", "exec"),
        ("run = exec\nrun(text)", "exec"),
        ("import builtins\nbuiltins.exec(text)", "exec"),
        ("__import__(name)", "__import__"),
        ("from importlib import import_module\nimport_module(name)", "importlib.import_module"),
        (
            "import importlib.util\nimportlib.util.spec_from_file_location('a', 'b')",
            "importlib.util.spec_from_file_location",
        ),
        (
            "from importlib.metadata import entry_points\nentry_points(group='x')",
            "importlib.metadata.entry_points",
        ),
        ("import yaml\nyaml.load(text)", "yaml.load"),
        ("import subprocess\nsubprocess.run(['ls'])", "subprocess.run"),
        ("from subprocess import run", "subprocess.run"),
        ("import pickle\nclass Mine(pickle._Unpickler): pass", "pickle.Unpickler"),
        ("import os\nos.system('ls')", "os.system"),
        ("import os\nos.execv('ls', [])", "os.execv"),
        ("import tarfile\ntarfile.open(path).extractall(folder)", ".extractall"),
        ("import tarfile\nfor m in tar: tar.extract(m)", ".extract"),
        ("import shutil\nshutil.unpack_archive(path)", "shutil.unpack_archive"),
        ("load(path, trust_remote_code=True)", "trust_remote_code=True"),
    ],
)
def test_each_way_is_found(text, name):
    assert name in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "model.eval()",
        "import re\nre.compile('a')",
        "import torch\ntorch.compile(network)",
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "import json\njson.loads(text)",
        "tar.extractfile(member)",
        "import importlib\nimportlib.invalidate_caches()",
        "'pickle.loads(data)'",
        "for code in codes: code.strip()",
        "class Settings:\n    compile: bool = False",
    ],
)
def test_what_is_harmless_is_left_alone(text):
    assert found(text) == set()
