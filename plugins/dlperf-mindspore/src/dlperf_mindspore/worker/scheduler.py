"""The scheduler of MindSpore's cluster: a process through which the trainers meet."""


def schedule() -> None:
    """Wait until all trainers have joined, serve them, and return when the last one has left."""
    import mindspore
    from mindspore.communication import init

    mindspore.set_device("CPU")
    init()
