"""Run measured cases of one replica one after the other in this process, with the worker's own code.

`requests.json` in the folder has the requests, below the names of the folders that get the records. Started by
`scripts/honest_series.py` in a framework's environment: standard library only.
"""

import json
import os
import sys
from pathlib import Path


def main(folder: Path) -> None:
    """Run the requests in `requests.json` of a folder one after the other, and write `NAME/record.json` for each.

    The file has a JSON object: name → request.
    """
    from dlperf_sdk.worker import trainer
    from dlperf_sdk.worker.network import free_ports
    from dlperf_sdk.worker.processes import TRAINER, Cluster, Node
    from dlperf_sdk.worker.request import Request, resolve

    requests = json.loads((folder / "requests.json").read_text(encoding="utf-8"))
    for name, plain in requests.items():
        request = Request.from_dict(plain)
        node = Node("127.0.0.1", tuple(free_ports("127.0.0.1", 6)), ("cpu:0",), "lo")
        cluster = Cluster((node,), request.device, request.strategy, request.framework_options)
        process = next(one for one in resolve(request.processes)(cluster) if one.role == TRAINER)
        os.environ.update(process.variables)
        (folder / name).mkdir()
        trainer.run(request, cluster, process, 1, str(folder / name), lambda: None)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    main(Path(sys.argv[1]))
