"""The launcher `ray` of dlperf-sdk."""
