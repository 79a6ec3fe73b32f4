"""Define each compiler for torch."""

import torch


def _compile_by_inductor(function, request):
    # The mode that also captures graphs would give out losses that the next step overwrites.
    mode = "max-autotune-no-cudagraphs" if request.framework_options["max_autotune"] else None
    return torch.compile(function, dynamic=False, mode=mode)


COMPILERS = {"none": lambda function, request: function, "inductor": _compile_by_inductor}
"""Compiler → the function that compiles a network or a function, with the request's options."""
