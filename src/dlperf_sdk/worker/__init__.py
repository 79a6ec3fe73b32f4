"""Run the agent and the measuring loop on the nodes, and provide the base of plugins' worker halves.

Every module here, subpackages included, needs only the standard library, and has the syntax of Python 3.7. So it runs
in every framework's environment without being installed there: the bundle brings it. Modules that only trainers or
their data sources import may need NumPy, Pillow or ZeroMQ as well. A test lists these, and checks all imports.

A plugin's worker half derives its trainers from `dlperf_sdk.worker.base_trainer.BaseTrainer` and its runtime from
`dlperf_sdk.worker.interface.Runtime`; its processes are `dlperf_sdk.worker.processes.Process` objects, and what it
does not support raises `dlperf_sdk.worker.unsupported.Unsupported`.
"""
