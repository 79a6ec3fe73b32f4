"""`completion`: scripts that complete the commands and flags of `dlperf` in a shell."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from dlperf_sdk.cli.output import write_text
from dlperf_sdk.cli.screen import command


@command
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="bash, zsh or fish.")], /
) -> int:
    """Print a script that completes commands and flags in a shell.

    For bash: `dlperf completion bash > ~/.local/share/bash-completion/completions/dlperf`. For zsh the file is
    `_dlperf` in a folder of `fpath`, for fish `~/.config/fish/completions/dlperf.fish`.
    """
    from dlperf_sdk.cli.app import build_app

    write_text(build_app().generate_completion(shell=shell))
    return 0
