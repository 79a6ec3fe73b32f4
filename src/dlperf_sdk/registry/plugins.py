"""Installed plugins: listing and loading, with stevedore behind one class.

Listing reads entry points and imports nothing. Loading imports only the plugin that is named. An error names the
plugin and its distribution; if two distributions claim one name, the error names both.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, cast

from attrs import field, frozen

from dlperf_sdk.errors import DlperfError, DuplicatePlugin, PluginError, UnknownName
from dlperf_sdk.registry.groups import GROUPS

if TYPE_CHECKING:
    from dlperf_sdk.interfaces.collection import Collection
    from dlperf_sdk.interfaces.database import DatabaseType
    from dlperf_sdk.interfaces.framework import Framework
    from dlperf_sdk.interfaces.importer import Importer
    from dlperf_sdk.interfaces.measurer import Measurer
    from dlperf_sdk.interfaces.model import Model
    from dlperf_sdk.interfaces.topology import Topology


@frozen
class Row:
    """One plugin in a listing."""

    group: str
    """Name of the plugin's group."""
    name: str
    """Name of the plugin."""
    distribution: str
    """Name and version of the distribution that registers the plugin; `given at run time` for one of
    `Registry.extra`."""
    target: str
    """Location of the plugin's class, as `module:attribute`."""
    is_private: bool = False
    """True if the distribution has the classifier `Private :: Do Not Upload`, as those for tests have. Lists for
    users leave the plugin out, but it can be selected by name."""


def _origin(entry_point: EntryPoint) -> tuple[str, bool]:
    """Return name and version of the distribution that registers an entry point, and True if it is private.

    A phrase describes the distribution if its metadata are missing: `an unknown distribution`.
    """
    if entry_point.dist is None:
        return "an unknown distribution", False
    metadata = entry_point.dist.metadata  # each access reads and parses the file
    # The protocol of `metadata` has no `get`.
    name, version = (metadata[key] if key in metadata else None for key in ("Name", "Version"))  # noqa: SIM401
    unnamed = f"a distribution without metadata ({getattr(entry_point.dist, '_path', '?')})"
    is_private = "Private :: Do Not Upload" in (metadata.get_all("Classifier") or ())
    return f"{name} {version}" if name else unnamed, is_private


@frozen
class Registry:
    """The plugins that are installed in this interpreter, and those given in `extra`.

    Installed plugins are looked up once, with the first use. A new registry sees those that were installed since.
    """

    extra: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """Further plugins for tests and notebooks: group → name → class."""
    _loaded: dict[tuple[str, str], Any] = field(factory=dict, init=False, repr=False, eq=False)

    @cached_property
    def _installed(self) -> Mapping[str, tuple[tuple[EntryPoint, Row], ...]]:
        """By group.

        Each reading opens the metadata of every distribution, and a plan needs the result dozens of times.
        """
        installed = entry_points()
        groups = {group: installed.select(group=kind.entry_points) for group, kind in GROUPS.items()}
        # Parsing metadata takes a millisecond, and most distributions register several plugins.
        an_entry_of = {entry.dist: entry for entries in groups.values() for entry in entries}
        origins = {dist: _origin(entry) for dist, entry in an_entry_of.items()}

        def describe(group: str, entry: EntryPoint) -> Row:
            distribution, is_private = origins[entry.dist]
            return Row(group, entry.name, distribution, entry.value, is_private)

        return {
            group: tuple((entry, describe(group, entry)) for entry in entries)
            for group, entries in groups.items()
        }

    def rows(self, group: str) -> tuple[Row, ...]:
        """Return a row for each plugin of a group, sorted by name; nothing is imported.

        Args:
            group: A key of `GROUPS`.

        Returns:
            The rows. A name that two distributions register has two rows.
        """
        installed = [row for _, row in self._installed[group]]
        extra = [
            Row(group, name, "given at run time", f"{cls.__module__}:{cls.__qualname__}")
            for name, cls in self.extra.get(group, {}).items()
        ]
        # An editable installation and its wheel may both be found: the same target twice is one plugin.
        return tuple(sorted(set(installed + extra), key=lambda row: (row.name, row.distribution)))

    def listed_rows(self, group: str) -> tuple[Row, ...]:
        """Return the rows of a group's plugins, sorted by name; nothing is imported.

        Plugins of private distributions, such as those for tests, are left out. `group` is a key of `GROUPS`.
        """
        return tuple(row for row in self.rows(group) if not row.is_private)

    def names(self, group: str) -> tuple[str, ...]:
        """Return the distinct names of a group's plugins, sorted; nothing is imported.

        Plugins of private distributions, such as those for tests, are left out. `group` is a key of `GROUPS`.
        """
        return tuple(sorted({row.name for row in self.listed_rows(group)}))

    def has_plugin(self, group: str, name: str) -> bool:
        """Return True if a plugin of the group has this name; nothing is imported.

        Plugins of private distributions, such as those for tests, count. `group` is a key of `GROUPS`.
        """
        return any(row.name == name for row in self.rows(group))

    def load(self, group: str, name: str) -> Any:
        """Return the instance of a plugin.

        The first call imports and instantiates the plugin's class; later calls return the same instance. Observers and
        presets need no attribute `name`. They may also be registered as an object that is not a class; that object is
        returned as it is.

        Args:
            group: A key of `GROUPS`.
            name: Name of the plugin.

        Raises:
            UnknownName: No plugin of the group has this name.
            DuplicatePlugin: Two distributions register the name.
            PluginError: The plugin cannot be imported or instantiated, does not implement the interface of its
                group, or has another `name` than its entry point.
        """
        if (group, name) in self._loaded:
            return self._loaded[group, name]
        rows = [row for row in self.rows(group) if row.name == name]
        if not rows:
            raise UnknownName(GROUPS[group].singular, name, self.names(group), self._hint(group))
        if len(rows) > 1:
            claims = " and ".join(f"{row.distribution} ({row.target})" for row in rows)
            raise DuplicatePlugin(
                f"The {GROUPS[group].singular} {name!r} is registered twice: by {claims}. Uninstall one of them."
            )
        extra = self.extra.get(group, {}).get(name)
        cls = extra if extra is not None else self._import(group, rows[0])
        self._loaded[group, name] = _instance(group, rows[0], cls)
        return self._loaded[group, name]

    def _hint(self, group: str) -> str:
        """Return the command or the document that tells how to add a plugin to the group."""
        distribution = GROUPS[group].distribution
        if distribution is not None and not any(
            row.distribution.startswith(f"{distribution} ") for row in self.rows(group)
        ):
            return f"`pip install --find-links dist {distribution}` adds the {group} of this project."
        return f"Install a plugin that adds it (entry-point group {GROUPS[group].entry_points!r})."

    def _import(self, group: str, row: Row) -> Any:
        def refuse(_: Any, __: EntryPoint, error: BaseException) -> None:
            raise _broken(row, error) from error

        from stevedore.driver import DriverManager  # not needed for a listing

        installed = [entry for entry, _ in self._installed[group]]

        class Driver(DriverManager[Any]):
            """Chooses from the entry points above: stevedore's own cache can miss a new installation."""

            def list_entry_points(self) -> list[EntryPoint]:
                return installed

        try:
            manager = Driver(
                GROUPS[group].entry_points,
                row.name,
                on_load_failure_callback=refuse,
                conflict_resolver=lambda namespace, name, candidates: candidates[0],
            )
        except PluginError:
            raise
        except (Exception, SystemExit) as error:
            raise _broken(row, error) from error
        return manager.driver

    def framework(self, name: str) -> Framework:
        """Return the loaded plugin of the framework named `name`.

        Raises:
            UnknownName: There is no such framework.
            PluginError: It cannot be loaded, or two distributions register the name.
        """
        return cast("Framework", self.load("frameworks", name))

    def model(self, name: str) -> Model:
        """Return the loaded plugin of the model named `name`.

        Raises:
            UnknownName: There is no such model.
            PluginError: It cannot be loaded, or two distributions register the name.
        """
        return cast("Model", self.load("models", name))

    def topology(self, name: str) -> Topology:
        """Return the loaded plugin of the launcher named `name`.

        Raises:
            UnknownName: There is no such launcher.
            PluginError: It cannot be loaded, or two distributions register the name.
        """
        return cast("Topology", self.load("topologies", name))

    def collection(self, name: str) -> Collection:
        """Return the loaded collection of published figures named `name`.

        Raises:
            UnknownName: There is no such collection.
            PluginError: It cannot be loaded, or two distributions register the name.
        """
        return cast("Collection", self.load("collections", name))

    def database(self, scheme: str) -> DatabaseType:
        """Return the plugin for databases whose URLs have the scheme, such as `postgresql`.

        Raises:
            UnknownName: No plugin has the scheme.
            PluginError: It cannot be loaded, or two distributions register the scheme.
        """
        return cast("DatabaseType", self.load("databases", scheme))

    def importer(self, name: str) -> Importer:
        """Return the loaded importer of logs named `name`.

        Raises:
            UnknownName: There is no such importer.
            PluginError: It cannot be loaded, or two distributions register the name.
        """
        return cast("Importer", self.load("importers", name))

    def measurers(self) -> tuple[Measurer, ...]:
        """Return every installed measurer, loaded, sorted by name, without those of private distributions.

        Raises:
            DuplicatePlugin: Two measurers have the same name.
            PluginError: A measurer cannot be loaded.
        """
        return tuple(self.load("measurers", name) for name in self.names("measurers"))

    def distribution(self, group: str, name: str) -> str:
        """Return name and version of the distribution that registers a plugin, such as `dlperf-torch 1.0`.

        `unknown` if the group has no plugin of that name. `group` is a key of `GROUPS`.
        """
        return next((row.distribution for row in self.rows(group) if row.name == name), "unknown")

    @contextmanager
    def wrap_plugin_errors(self, group: str, name: str, action: str) -> Iterator[None]:
        """Return a context manager whose block raises a `PluginError` in place of an unexpected exception.

        Args:
            group: The plugin's group.
            name: The plugin's name.
            action: What the plugin was to do, as a verb with its objects, for the message `… cannot ACTION: …`.

        Raises:
            PluginError: On leaving the block, in place of any `Exception` or `SystemExit` other than a `DlperfError`,
                which passes unchanged. The message names the distribution and the line that raised.
        """
        try:
            yield
        except DlperfError:
            raise
        except (Exception, SystemExit) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise PluginError(
                f"{name}'s plugin ({self.distribution(group, name)}) cannot {action}: {type(error).__name__}: {error}, "
                f"in {last.name} of {last.filename}, line {last.lineno}. Repair that distribution, or reinstall it."
            ) from error

    def trainer(self, framework: Framework, model: Model) -> str | None:
        """Return the trainer for a framework and a model, as `module:attribute`; None if neither plugin brings one.

        The framework's plugin takes precedence over the model's.
        """
        return framework.trainers.get(model.name) or model.trainers.get(framework.name)


def _broken(row: Row, error: BaseException) -> PluginError:
    last = traceback.format_exception_only(error)[-1].strip()
    stop = "" if last.endswith((".", "!", "?")) else "."
    return PluginError(
        f"The {GROUPS[row.group].singular} plugin {row.name!r} of {row.distribution} cannot be used: loading "
        f"{row.target} failed with {last}{stop} Reinstall or uninstall that "
        "distribution; the other plugins are not affected."
    )


def _instance(group: str, row: Row, cls: Any) -> Any:
    interface = GROUPS[group].interface()
    if interface is object and not isinstance(cls, type):
        return cls
    if not (isinstance(cls, type) and issubclass(cls, interface)):
        raise PluginError(
            f"The {GROUPS[group].singular} plugin {row.name!r} of {row.distribution} does not implement "
            f"{interface.__name__}: {row.target} must be a subclass of {interface.__module__}.{interface.__name__}."
        )
    try:
        instance = cls()
    except (Exception, SystemExit) as error:
        raise _broken(row, error) from error
    if interface is not object and getattr(instance, "name", None) != row.name:
        raise PluginError(
            f"The {GROUPS[group].singular} plugin {row.name!r} of {row.distribution} calls itself "
            f"{getattr(instance, 'name', None)!r}; entry point and class must agree on the name."
        )
    return instance
