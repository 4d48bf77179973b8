"""One of several processes that train together: `python -m tests.worker RANK OUT.npz PORT PORT`.

The parts are those of `tests.replicas`, so its numbers of one device are the ones to reach.
"""

import json
import os
import sys


def main(rank: str, path: str, *ports: str) -> None:
    workers = [f"localhost:{port}" for port in ports]
    task = {"type": "worker", "index": int(rank)}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    from tests import replicas  # imports TensorFlow, which reads the variable

    strategy = replicas.tf.distribute.MultiWorkerMirroredStrategy()
    replicas.several_steps(strategy)
    replicas.cached(strategy)
    replicas.no_rate(strategy)
    found = {name.replace("/", "|"): value for name, value in replicas.found.items()}
    replicas.np.savez(path, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
