"""A program that imports a controller half where the modules of the framework cannot be imported.

It asks the plugin for everything that the core asks for: what it declares, each environment, and which cases it
refuses. Its arguments come as JSON on standard input.
"""

from __future__ import annotations

import importlib
import importlib.abc
import json
import sys
from typing import Any


class Refuse(importlib.abc.MetaPathFinder):
    """A finder that raises for the modules of the framework's requirements."""

    def __init__(self, forbidden: list[str]) -> None:
        self._forbidden = frozenset(forbidden)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise an ImportError if the module `name` must not be imported; else return None, for the next finder.

        `path` and `target` are those of Python's finders, and not used.
        """
        if name.partition(".")[0] in self._forbidden:
            raise ImportError("the controller half must not import " + name)


def main() -> None:
    """Import the controller half that standard input names, and call its methods as the core calls them.

    Standard input has a JSON object: `path` (for `sys.path`), `forbidden` (names of modules), `plugin` (as
    `module:attribute`), `environments` (lists of device, strategy and model) and `specs` (fields of run specs).

    Raises:
        ImportError: The controller half imports a forbidden module or the worker half.
    """
    arguments = json.load(sys.stdin)
    sys.path[:] = arguments["path"]
    sys.meta_path.insert(0, Refuse(arguments["forbidden"]))
    from dlperf_sdk.spec.run_spec import RunSpec

    module, _, attribute = arguments["plugin"].partition(":")
    plugin = getattr(importlib.import_module(module), attribute)()
    for name in ("trainers", "packages", "capabilities", "unsupported"):
        getattr(plugin, name)
    for device, strategy, model in arguments["environments"]:
        plugin.environment(device, strategy, model)
    for spec in arguments["specs"]:
        plugin.explain_refusal(RunSpec(**spec), plugin.Options())
    module, _, function = plugin.processes.partition(":")
    getattr(importlib.import_module(module), function)
    worker = plugin.runtime.partition(":")[0]
    if worker in sys.modules:
        raise ImportError("the controller half imports the worker half, " + worker)


if __name__ == "__main__":
    main()
