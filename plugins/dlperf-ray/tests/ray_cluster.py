"""A Ray cluster of several nodes on this machine: `ray_cluster.py NODES`, run by a Python that has Ray.

It prints its address. Each line of standard input is the index of a node to kill, which is answered with the same line;
the end of standard input ends the cluster.
"""

import os
import sys

STORE = 80 << 20  # bytes; Ray's own minimum is 75 MiB


def main() -> None:
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(num_cpus=0, object_store_memory=STORE, include_dashboard=False)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(int(sys.argv[1]))]
    cluster.wait_for_nodes()
    print(cluster.address, file=stream, flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line)], allow_graceful=False)
        print(line.strip(), file=stream, flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
