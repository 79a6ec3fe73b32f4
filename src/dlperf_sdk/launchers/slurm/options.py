"""Options of the launcher for Slurm."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.launchers.options import AgentOptions, flags, option


@frozen
class SlurmOptions(AgentOptions):
    """Options of the launcher for Slurm."""

    partition: str = option("Partition of a job that is submitted.")
    account: str = option("Account that it is charged to.")
    time_limit: str = option("Its time limit, as Slurm writes it: 30 or 1:00:00.")
    constraint: str = option("Features that its nodes must have.")
    gres: str = option("Generic resources per node: gpu:8.")
    exclusive: bool = option("Share its nodes with no other job.", True)
    linger: int = option("Seconds that a job waits at its end for a controller to fetch its results.", 600)
    sbatch_flags: str = flags("More arguments for sbatch.")
    srun_flags: str = flags("More arguments for srun, as for pyxis: --container-image=….")
