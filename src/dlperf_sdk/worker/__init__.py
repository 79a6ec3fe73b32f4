"""Run the agent and the measuring loop on the nodes, and provide the base of plugins' worker halves.

Standard library only, Python 3.7 syntax, so that it runs in every framework's environment without being installed
there: the bundle brings it. `canonical` alone needs NumPy, and only trainers import it.

A plugin's worker half imports `Runtime`, `Trainer`, `Step` and `Unsupported` from `dlperf_sdk.worker.interface`,
`Process` from `dlperf_sdk.worker.processes`, and `weights` and `batch` from `dlperf_sdk.worker.canonical`.
"""
