"""Figures that others have published, as data: beside them stands whatever you measure.

::

    from dlperf_sdk.published import published

    figures = published("dlperf-v1.0")
    figures.where(framework="torch", model="bert-base", topology="4n8d")
"""

from dlperf_sdk.published.collection import NAMES, Published, published
from dlperf_sdk.published.figure import PublishedFigure, Source

__all__ = ["NAMES", "Published", "PublishedFigure", "Source", "published"]
