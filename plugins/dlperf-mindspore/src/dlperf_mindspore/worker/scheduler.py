"""The scheduler of MindSpore's cluster: a process through which the trainers meet."""


def schedule() -> None:
    """Serve as the scheduler of MindSpore's cluster from when the trainers join until the last one has left.

    The process's environment has the variables of the cluster (`MS_*`).
    """
    import mindspore
    from mindspore.communication import init

    mindspore.set_device("CPU")
    init()
