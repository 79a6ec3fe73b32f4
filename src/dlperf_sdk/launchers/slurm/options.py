"""Options of the launcher for Slurm."""

from __future__ import annotations

import attrs
from attrs import frozen

from dlperf_sdk.launchers.options import AgentOptions, flags


@frozen
class SlurmOptions(AgentOptions):
    """Options of the launcher for Slurm."""

    partition: str = attrs.field(default="", metadata={"help": "Partition of a job that is submitted."})
    account: str = attrs.field(default="", metadata={"help": "Account that it is charged to."})
    time_limit: str = attrs.field(
        default="", metadata={"help": "Its time limit, as Slurm writes it: 30 or 1:00:00."}
    )
    constraint: str = attrs.field(default="", metadata={"help": "Features that its nodes must have."})
    gres: str = attrs.field(default="", metadata={"help": "Generic resources per node: gpu:8."})
    exclusive: bool = attrs.field(default=True, metadata={"help": "Share its nodes with no other job."})
    linger: int = attrs.field(
        default=600,
        metadata={"help": "Seconds that a job waits at its end for a controller to fetch its results."},
    )
    sbatch_flags: str = flags("More arguments for sbatch.")
    srun_flags: str = flags("More arguments for srun, as for pyxis: --container-image=….")
