#!/usr/bin/env python3
"""Writes docs/api.md out of the docstrings of the installed package.

  make_api.py [FILE]    default: docs/api.md of this tree

Run it as `scripts/python run docs/make_api.py`; a test compares its output with the file.
"""

import ast
import inspect
import sys
from pathlib import Path

import slabyard
from slabyard import _core, blobstore, errors

HEAD = """# API of the Python package

Written by `docs/make_api.py` out of the docstrings; do not edit it by hand. [guide.md](guide.md)
shows how the parts are used together.

Deadlines are absolute, `time.monotonic()` seconds; timeouts are seconds; sizes are bytes. A row
number is 0 .. 2^64 - 1, a field is text of 1 to 1,024 bytes of UTF-8 without NUL, a key is
`"<row>@<field>"`.
"""

SECTIONS = (
    ("slabyard", "A cluster and its clients.", slabyard,
     "local Cluster Client Jagged Views Tensor Directory Endpoint"),
    ("slabyard.blobstore", inspect.getdoc(blobstore), blobstore,
     "UnitSlabStore encode_index Blob remaining busy_wait"),
)  # fmt: skip

# Of UnitSlabStore these are documented too, though their names begin with an underscore.
DOCUMENTED = {"_refresh_units", "_unit", "_addr", "_commit", "_put_round", "_failed", "_unit_dead"}
DOCUMENTED |= {"_call_units"}

BACKEND = "initialize shutdown SlabyardStorageManager SlabyardStoreClient KeysNotFound"


def text(doc):
    return f"```text\n{doc}\n```\n" if doc else ""


def signature(name, thing):
    try:
        shown = str(inspect.signature(thing)).replace("(self, ", "(").replace("(self)", "()")
    except (TypeError, ValueError):
        shown = ""
    return f"{name}{shown}"


def members(owner):
    """Methods and properties of its own, in the order they were written."""
    for name, member in vars(owner).items():
        if name.startswith("_") and name not in DOCUMENTED:
            continue
        doc = inspect.getdoc(getattr(owner, name))
        if callable(member) and doc:
            yield signature(name, getattr(owner, name)), doc
        elif (isinstance(member, property) or inspect.isgetsetdescriptor(member)) and doc:
            yield name, doc


def part(module_name, name, thing):
    lines = [f"### `{module_name}.{signature(name, thing)}`\n", text(inspect.getdoc(thing))]
    if inspect.isclass(thing) and not issubclass(thing, tuple):
        for title, doc in members(thing):
            lines += [f"#### `{name}.{title}`\n", text(doc)]
    return lines


def exceptions():
    lines = ["## slabyard.errors\n", text(inspect.getdoc(errors))]
    for name in errors.__all__:
        thing = getattr(errors, name)
        base = thing.__mro__[[c.__module__ for c in thing.__mro__].index("builtins")]
        lines += [f"### `{signature(name, thing)}`: {base.__name__}\n"]
        lines += [text(inspect.getdoc(thing))]
    lines += ["### Statuses of C and their classes\n", "| C | value | raised as | means |"]
    lines += ["|---|---|---|---|"]
    lines += [f"| `{name}` | {value} | {python} | {meaning} |"
              for name, value, python, meaning in _core.STATUSES if value]  # fmt: skip
    return lines


def written(node):
    """A function, or a class that is called, as its source has it."""
    inside = {one.name: one for one in getattr(node, "body", ()) if hasattr(one, "name")}
    made = inside.get("__init__") if isinstance(node, ast.ClassDef) else node
    names = ast.unparse(made.args).removeprefix("self").removeprefix(", ") if made else None
    return node.name if made is None else f"{node.name}({names})"


def backend():
    """It is read and not imported, for which TransferQueue and Ray would be needed."""
    folder = Path(slabyard.__file__).parent / "transfer_queue"
    trees = {file.stem: ast.parse(file.read_text()) for file in folder.glob("*.py")}
    nodes = {one.name: one for tree in trees.values() for one in tree.body if hasattr(one, "name")}
    lines = ["## slabyard.transfer_queue\n", text(ast.get_docstring(trees["__init__"]))]
    lines += ["The keys of the block and their defaults are in the "
              "[guide](guide.md#transferqueue-under-ray).\n"]  # fmt: skip
    for name in BACKEND.split():
        node = nodes[name]
        lines += [f"### `slabyard.transfer_queue.{written(node)}`\n"]
        lines += [text(ast.get_docstring(node))]
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            doc = hasattr(member, "name") and ast.get_docstring(member)
            if doc:
                lines += [f"#### `{name}.{written(member)}`\n", text(doc)]
    return lines


def page():
    lines = [HEAD]
    for title, doc, module, names in SECTIONS:
        lines += [f"## {title}\n", text(doc)]
        for name in names.split():
            lines += part(title, name, getattr(module, name))
    lines += ["`BUSY_RETRY_S` = {}, `BUSY_RETRY_MAX_S` = {}, `PENDING_POLL_S` = {} (seconds)\n"
              .format(blobstore.BUSY_RETRY_S, blobstore.BUSY_RETRY_MAX_S,
                      blobstore.PENDING_POLL_S)]  # fmt: skip
    return "\n".join(line for line in lines + backend() + exceptions() if line) + "\n"


if __name__ == "__main__":
    place = Path(__file__).resolve().parent / "api.md"
    Path(sys.argv[1] if len(sys.argv) > 1 else place).write_text(page())
