"""The stubs say what the package does: the same names, parameters, and defaults."""

import ast
import importlib
import inspect
import pathlib
import unittest

import slabyard

PACKAGE = pathlib.Path(slabyard.__file__).parent
MODULES = ["blobstore", "client", "cluster", "columns", "errors", "transport"]


def stub_parameters(function):
    """[(name, default or None, is keyword-only)] of a function of a stub."""
    given = function.args
    names = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(names) - len(given.defaults)) + given.defaults
    found = [(a.arg, d and ast.unparse(d), False) for a, d in zip(names, defaults)]
    found += [
        (a.arg, d and ast.unparse(d), True) for a, d in zip(given.kwonlyargs, given.kw_defaults)
    ]
    return found


def real_parameters(function):
    found = []
    for one in inspect.signature(function).parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        default = None if one.default is one.empty else repr(one.default)
        found.append((one.name, default, one.kind is one.KEYWORD_ONLY))
    return found


def overloads(body):
    """Functions by name; of overloads the one with the most defaults."""
    functions = {}
    for node in body:
        if not isinstance(node, ast.FunctionDef):
            continue
        if any(getattr(d, "id", "") == "property" for d in node.decorator_list):
            continue
        count = sum(default is not None for _, default, _ in stub_parameters(node))
        if count >= functions.get(node.name, (-1,))[0]:
            functions[node.name] = (count, node)
    return {name: node for name, (_, node) in functions.items()}


class Stubs(unittest.TestCase):
    def compare(self, where, functions, owner):
        for name, node in functions.items():
            with self.subTest(f"{where}.{name}"):
                real = getattr(owner, name)
                parameters = real_parameters(real)
                stub = [p for p in stub_parameters(node)]
                self.assertEqual(
                    [(n, d.replace("'", '"') if d else d, k) for n, d, k in stub],
                    [(n, d.replace("'", '"') if d else d, k) for n, d, k in parameters],
                )

    def test_modules(self):
        for name in MODULES:
            module = importlib.import_module(f"slabyard.{name}")
            tree = ast.parse((PACKAGE / f"{name}.pyi").read_text())
            self.compare(name, overloads(tree.body), module)
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    owner = getattr(module, node.name)
                    self.compare(f"{name}.{node.name}", overloads(node.body), owner)

    def test_core_names(self):
        tree = ast.parse((PACKAGE / "_core.pyi").read_text())
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                owner = getattr(slabyard._core, node.name)
                for one in node.body:
                    if isinstance(one, ast.FunctionDef) and one.name != "__buffer__":
                        self.assertTrue(hasattr(owner, one.name), f"{node.name}.{one.name}")
            elif isinstance(node, ast.FunctionDef):
                self.assertTrue(hasattr(slabyard._core, node.name), node.name)

    def test_every_public_method_has_a_stub(self):
        for name in MODULES:
            module = importlib.import_module(f"slabyard.{name}")
            tree = ast.parse((PACKAGE / f"{name}.pyi").read_text())
            stubbed = {
                f"{node.name}.{one.name}"
                for node in tree.body
                if isinstance(node, ast.ClassDef)
                for one in node.body
                if isinstance(one, ast.FunctionDef)
            }
            for node in tree.body:
                if not isinstance(node, ast.ClassDef):
                    continue
                for method, value in vars(getattr(module, node.name)).items():
                    if method.startswith("_") or not callable(value):
                        continue
                    self.assertIn(f"{node.name}.{method}", stubbed)

    def test_typed(self):
        self.assertTrue((PACKAGE / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
