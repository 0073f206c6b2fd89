"""An MXNet program that knows nothing of yarnps: a small network learns handwritten digits.

    python mxnet_digits.py --kv local                 # on one machine
    yarnps submit mxnet-sync.yaml                     # with servers and workers

When all programs start again after a death, it goes on from the weights that worker 0 has saved.
"""

import argparse
import os

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

WEIGHTS = "digits.params"
EPOCH = "digits.epoch"
EPOCH_KEY = 10**6  # away from the weights' keys, which are numbers from 0


def saved_epoch():
    """How many epochs the saved weights have been through."""
    if not os.path.exists(EPOCH):
        return 0
    with open(EPOCH) as file:
        return int(file.read())


def save(net, epoch):
    """Keep the weights; the number comes last, so that it never promises too much."""
    net.save_parameters(WEIGHTS + ".new")
    os.replace(WEIGHTS + ".new", WEIGHTS)
    with open(EPOCH + ".new", "w") as file:
        file.write(str(epoch))
    os.replace(EPOCH + ".new", EPOCH)


def accuracy(net, pictures, labels):
    """The share that is recognised."""
    return float((net(mx.nd.array(pictures)).argmax(axis=1).asnumpy() == labels).mean())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kv", default="local", help="local, dist_sync or dist_async")
    parser.add_argument("--data", default="digits.npz")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.2)
    options = parser.parse_args()

    mx.random.seed(1)
    kv = mx.kv.create(options.kv)  # servers never come back from here
    data = np.load(options.data)

    net = gluon.nn.Sequential()
    net.add(gluon.nn.Dense(64, activation="relu"), gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 64)))
    if kv.rank == 0 and saved_epoch() > 0:
        net.load_parameters(WEIGHTS)
    # Worker 0 says for all where to go on: only its value is kept.
    kv.init(EPOCH_KEY, mx.nd.array([saved_epoch()]))
    begin = mx.nd.zeros((1,))
    kv.pull(EPOCH_KEY, out=begin)

    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": options.rate}, kvstore=kv
    )
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    # Everyone makes the same number of batches, or the others of dist_sync would wait for ever.
    mine = slice(kv.rank, None, kv.num_workers)
    pictures, labels = data["train"][mine], data["train_labels"][mine]
    batches = len(data["train"]) // kv.num_workers // options.batch
    for epoch in range(int(begin.asscalar()), options.epochs):
        order = np.random.RandomState(epoch).permutation(len(labels))
        for batch in range(batches):
            rows = order[batch * options.batch : (batch + 1) * options.batch]
            x, y = mx.nd.array(pictures[rows]), mx.nd.array(labels[rows])
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            workers = kv.num_workers if options.kv == "dist_sync" else 1
            trainer.step(options.batch * workers)
        mx.nd.waitall()  # MXNet runs ahead of its program, also past the program's end
        if kv.rank == 0:
            save(net, epoch + 1)
            reached = accuracy(net, data["test"], data["test_labels"])
            print("epoch", epoch + 1, "accuracy", round(reached, 4), flush=True)


main()
