"""The kinds of plugins, each with its entry-point group and the interface that its plugins implement."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from attrs import frozen


@frozen
class Group:
    """A kind of plugin."""

    name: str
    """Plural: the entry-point group is `dlperf_sdk.` and this name."""
    singular: str
    """Name of a plugin of this kind in messages."""
    path: str | None
    """Interface that the plugins implement, as `module:class` below `dlperf_sdk.interfaces`; None if any object may be
    a plugin."""
    distribution: str | None = None
    """Distribution of this project that brings plugins of the group; None if the core brings them or plugins are
    separate."""
    is_optional: bool = False
    """True if dlperf-sdk is complete without a plugin of the group."""

    @property
    def entry_points(self) -> str:
        """Name of the entry-point group, such as `dlperf_sdk.frameworks`."""
        return f"dlperf_sdk.{self.name}"

    def interface(self) -> type[Any]:
        """Import and return the class that the group's plugins implement; `object` if any object may be a plugin."""
        if self.path is None:
            return object
        module, _, name = self.path.partition(":")
        return cast(type[Any], getattr(import_module(f"dlperf_sdk.interfaces.{module}"), name))


GROUPS: dict[str, Group] = {
    group.name: group
    for group in (
        Group("frameworks", "framework", "framework:Framework"),
        Group("models", "model", "model:Model"),
        Group("topologies", "launcher", "topology:Topology"),
        Group("measurers", "measurer", "measurer:Measurer"),
        Group("collections", "collection", "collection:Collection", "dlperf-published", is_optional=True),
        Group("importers", "importer", "importer:Importer", "dlperf-published", is_optional=True),
        Group("databases", "database", "database:DatabaseType", "dlperf-postgresql", is_optional=True),
        Group("presets", "preset", None, "dlperf-published", is_optional=True),
        Group("observers", "observer", None, is_optional=True),
    )
}
