"""Logs of other programs as results: marked as imported, with the estimator that was used, and nothing verified.

::

    from dlperf_sdk.exchange.importers import import_logs

    results = import_logs("tf-cnn-benchmarks", ["run-1.log", "run-2.log"], {"precision": "fp32"})

Logs of the same case become the repeats of one result. What a log does not say has to be said by hand, or it stays
unknown. A log is read line by line, whatever its size; nothing in it can do anything.
"""

from dlperf_sdk.exchange.importers.case_results import IMPORTERS, import_logs
from dlperf_sdk.exchange.importers.reading import Reading

__all__ = ["IMPORTERS", "Reading", "import_logs"]
