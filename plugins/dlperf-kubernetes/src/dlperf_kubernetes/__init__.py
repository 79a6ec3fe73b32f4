"""The launcher `kubernetes` of dlperf-sdk."""
