"""Methods say what they need: nothing outside their rooms asks which method it has."""

import ast
from pathlib import Path
from typing import get_args

import pytest

import pencil
from pencil.algorithm import Pencil, TopPencil
from pencil.methods import (
    BuiltIn,
    CoTeaching,
    DivideMix,
    EarlyLearning,
    Forward,
    JointOptimization,
    SparseOverParametrization,
)

SOURCE = Path(pencil.__file__).parent
ROOMS = ("algorithm", "methods")
CLASSES = {method.__name__ for method in (*get_args(BuiltIn), TopPencil)} | {"BuiltIn", "Mixing"}
NAMES = {method.name for method in get_args(BuiltIn)}


def names_in(node):
    """The last part of every name, dotted or not, in an expression."""
    found = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return {each.id if isinstance(each, ast.Name) else each.attr for each in found}


def questions(tree):
    """Where code asks for a particular method: by its class, or by its name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kind]):
                asked = names_in(kind) & CLASSES
            case ast.MatchClass(cls=kind):
                asked = names_in(kind) & CLASSES
            case ast.Compare() if "method" in ast.unparse(node):
                sides = (node.left, *node.comparators)
                words = {each.value for each in sides if isinstance(each, ast.Constant)}
                asked = (words & NAMES) | {name for side in sides for name in names_in(side) & CLASSES}
            case _:
                continue
        if asked:
            yield node.lineno if hasattr(node, "lineno") else 0, ast.unparse(node)


def test_no_module_outside_their_rooms_asks_which_method_it_has():
    modules = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in ROOMS]
    assert len(modules) > 100
    asked = {
        f"{path.relative_to(SOURCE)}:{line}": words
        for path in modules
        for line, words in questions(ast.parse(path.read_text()))
    }
    assert asked == {}


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(method, Pencil)",
        "isinstance(config.method, CoTeaching | methods.DivideMix)",
        "issubclass(kind, (int, Forward))",
        "type(method) is Pencil",
        "report.settings['method']['name'] != 'pencil'",
        "match method:\n    case DivideMix():\n        pass",
    ],
)
def test_such_questions_are_found(code):
    assert len(list(questions(ast.parse(code)))) == 1


def test_what_the_methods_declare():
    def declaring(holds):
        return {method for method in get_args(BuiltIn) if holds(method())}

    learners = {Pencil, EarlyLearning, JointOptimization, SparseOverParametrization}
    assert declaring(lambda method: method.learns_labels) == learners
    assert declaring(lambda method: method.networks == 2) == {CoTeaching, DivideMix}
    assert declaring(lambda method: method.mixing() is not None) == {DivideMix}
    assert declaring(lambda method: method.cut(3) is not None) == {Pencil}
    assert declaring(lambda method: method.start_shared(3)) == {Forward, DivideMix}
    assert declaring(lambda method: method.wants_noise) == set()
    assert Forward(transition="noise").wants_noise
    assert isinstance(Pencil().cut(3), TopPencil)
    assert Pencil().cut(3).learns_labels
