"""The scheduler of MindSpore's cluster: a process through which the trainers meet."""


def schedule() -> None:
    """Run this process as the scheduler of MindSpore's cluster until the last trainer has left the cluster.

    The variables of the cluster (`MS_*`) must be set in the process's environment.
    """
    import mindspore
    from mindspore.communication import init

    mindspore.set_device("CPU")
    init()
