"""The largest batch size that fits: `batch_size="max"`, found by trying in fresh processes."""

from dlperf_sdk.max_batch.resolve import begin_case, resolve_max_batch

__all__ = ["begin_case", "resolve_max_batch"]
