"""Execution of a worker half without planner, agents or environment, for tests and benchmarks."""
