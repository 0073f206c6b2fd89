"""An MXNet program that says what it gets from its servers: ``python mxnet_values.py MODE FOLDER``.

Each worker writes its values to a file, which say the same under any scheduler.
"""

import json
import os
import sys

import mxnet as mx

mode, folder = sys.argv[1:]
kv = mx.kv.create("dist_sync" if mode == "sync" else "dist_async")
values = {}


def pulled(key, shape):
    out = mx.nd.zeros(shape)
    kv.pull(key, out=out)
    return out.asnumpy().tolist()


def synchronous():
    """Sums of all workers; rows of a sparse table; then an optimizer on the servers."""
    kv.init("sum", mx.nd.ones((2, 3)))
    values["sums"] = []
    for step in range(3):
        kv.push("sum", mx.nd.ones((2, 3)) * (kv.rank + 1) * (step + 1))
        values["sums"].append(pulled("sum", (2, 3)))
    kv.init("rows", mx.nd.ones((6, 2)).tostype("row_sparse"))
    mine = mx.nd.array([[1.0, 2.0]])
    kv.push("rows", mx.nd.sparse.row_sparse_array((mine, [kv.rank]), shape=(6, 2)))
    out = mx.nd.sparse.zeros("row_sparse", (6, 2))
    kv.row_sparse_pull("rows", out=out, row_ids=mx.nd.array([0, 1, 5]))
    values["rows"] = out.tostype("default").asnumpy().tolist()
    kv._barrier()
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, rescale_grad=1.0))
    kv.init("weights", mx.nd.ones((4,)))
    kv.push("weights", mx.nd.ones((4,)) * (kv.rank + 1))
    values["weights"] = pulled("weights", (4,))


def asynchronous():
    """Two-bit gradients, summed by an optimizer on the servers."""
    kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    kv.set_optimizer(mx.optimizer.Test(rescale_grad=1.0))
    kv.init("sum", mx.nd.zeros((4,)))
    for _ in range(5):
        kv.push("sum", mx.nd.array([0.3, 0.6, -0.6, 0.0]))
        mx.nd.waitall()
    kv._barrier()
    values["sum"] = pulled("sum", (4,))


synchronous() if mode == "sync" else asynchronous()
kv._barrier()
mx.nd.waitall()
with open(os.path.join(folder, f"{mode}-{kv.rank}.json"), "w") as file:
    json.dump({"workers": kv.num_workers, **values}, file)
