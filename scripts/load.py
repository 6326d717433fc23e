"""load.py - a program of this tree as a module: load("scripts/bugs")."""

import importlib.machinery
import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load(name):
    """The module that the file `name`, a path in the tree, becomes; its parts lie beside it. No bytecode is kept."""
    sys.dont_write_bytecode = True
    path = os.path.join(ROOT, name)
    if os.path.dirname(path) not in sys.path:
        sys.path.append(os.path.dirname(path))
    loader = importlib.machinery.SourceFileLoader(os.path.basename(name).removesuffix(".py"), path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
