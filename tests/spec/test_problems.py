"""Every wrong job file is told what is wrong, where, and what was likely meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from yarnps.spec import APPS, JobFileError, load

Write = Callable[..., str]
Problems = Callable[..., list[str]]

KNOWN = ", ".join(APPS)

SERVER = 3
WORKER = 4
APP = 6
DATA = 7
TRAIN = 8


def server(**parts: str) -> str:
    return _service("server", "instances: 2", **parts)


def worker(**parts: str) -> str:
    return _service("worker", "instances: 3", **parts)


def other(name: str, more: str) -> str:
    return _service(name, "instances: 1", more=more)


def _service(
    name: str, instances: str, memory: str = "1 GiB", vcores: str = "1", more: str = ""
) -> str:
    resources = f"resources: {{memory: {memory}, vcores: {vcores}}}"
    return f"  {name}: {{{instances}, {resources}{', ' + more if more else ''}}}"


KEYS = [
    ({1: "nmae: flights"}, (), "job.yaml:1: nmae: unknown key; did you mean name?"),
    (
        {TRAIN: "  train: {epoch: 2}"},
        (),
        "job.yaml:8: yarnps.train.epoch: unknown key; did you mean epochs?",
    ),
    (
        {TRAIN: "  epochs: 2"},
        (),
        "job.yaml:8: yarnps.epochs: unknown key; did you mean yarnps.train.epochs?",
    ),
    (
        {},
        ("stop: {metric: test_auc}",),
        "job.yaml:9: stop: unknown key; did you mean yarnps.stop?",
    ),
    (
        {WORKER: worker(more="memory: 2 GiB")},
        (),
        "job.yaml:4: services.worker.memory: unknown key; "
        "did you mean services.worker.resources.memory?",
    ),
    (
        {WORKER: "  worker: {instances: 3, resources: {memory: 1 GiB, vcore: 1}}"},
        (),
        "job.yaml:4: services.worker.resources.vcore: unknown key; did you mean vcores?",
    ),
    ({}, ("  zzz: 1",), "job.yaml:9: yarnps.zzz: unknown key"),
    (
        {},
        ("  params: {alfa: 0.1}",),
        "job.yaml:9: yarnps.params.alfa: unknown parameter of ftrl: "
        "known: hash_buckets, alpha, beta, l1, l2, bias, admit, when_full; did you mean alpha?",
    ),
    (
        {TRAIN: "  train: {epochs: 2}\n  train: {epochs: 3}"},
        (),
        "job.yaml:9: yarnps.train: given twice: first on line 8",
    ),
    (
        {APP: "  app: ftlr"},
        (),
        f"job.yaml:6: yarnps.app: unknown program 'ftlr': known: {KNOWN}; did you mean ftrl?",
    ),
    (
        {DATA: "  data: {}"},
        (),
        "job.yaml:7: yarnps.data.train: missing: "
        "Address, or list of addresses, of the training input; with `*`, folders too",
    ),
    ({DATA: ""}, (), "job.yaml:5: yarnps.data: missing: The input"),
    (
        {WORKER: ""},
        (),
        "job.yaml:2: services.worker: missing: the workers' instances and resources",
    ),
    (
        {WORKER: other("workers", "script: x")},
        (),
        "job.yaml:2: services.worker: missing: the workers' instances and resources "
        "(there is a service 'workers')",
    ),
    (
        {WORKER: "  worker: {instances: 3}"},
        (),
        "job.yaml:4: services.worker.resources: missing: What a container asks for",
    ),
]

VALUES = [
    (
        {WORKER: worker().replace("3", "-2")},
        (),
        "job.yaml:4: services.worker.instances: expected at least 1, found -2",
    ),
    (
        {WORKER: worker().replace("3", "0")},
        (),
        "job.yaml:4: services.worker.instances: expected at least 1, found 0",
    ),
    (
        {WORKER: worker().replace("3", "three")},
        (),
        "job.yaml:4: services.worker.instances: expected a whole number, found the text 'three'",
    ),
    (
        {WORKER: worker().replace("3", "2.5")},
        (),
        "job.yaml:4: services.worker.instances: expected a whole number, found the number 2.5",
    ),
    (
        {WORKER: worker(vcores="true")},
        (),
        "job.yaml:4: services.worker.resources.vcores: expected a whole number, found true",
    ),
    (
        {WORKER: worker(more="env: {OMP_NUM_THREADS: 08}")},
        (),
        "job.yaml:4: services.worker.env.OMP_NUM_THREADS: expected a text, found the number 08: "
        'put it in quotes (OMP_NUM_THREADS: "08")',
    ),
    (
        {WORKER: worker(more="env: {ON: yes}")},
        (),
        "job.yaml:4: services.worker.env.ON: expected a text, found yes: "
        'put it in quotes (ON: "yes")',
    ),
    (
        {WORKER: worker(more='env: {my-var: "1"}')},
        (),
        "job.yaml:4: services.worker.env.my-var: "
        "expected a name of letters, digits and _ for a variable, found 'my-var'",
    ),
    (
        {WORKER: f"{worker()}\n{other('aside', 'nodes: []')}"},
        (),
        "job.yaml:5: services.aside.script: missing: the bash script of the service",
    ),
    (
        {WORKER: worker(more="files: {lib/a.py: a.py}")},
        (),
        'job.yaml:4: services.worker.files."lib/a.py": '
        "expected a plain name (no folder) for the file's target, found 'lib/a.py'",
    ),
    (
        {WORKER: worker(more="files: {a.py: {source: a.py, type: tar}}")},
        (),
        'job.yaml:4: services.worker.files."a.py".type: '
        "expected INFER, FILE or ARCHIVE, found the text 'tar'",
    ),
    (
        {WORKER: worker(more="files: {yarnps-job.json: a}")},
        (),
        'job.yaml:4: services.worker.files."yarnps-job.json": '
        "yarnps itself brings a file of this name",
    ),
    (
        {WORKER: worker(more="nodes: node1")},
        (),
        "job.yaml:4: services.worker.nodes: expected a list, found the text 'node1': write [node1]",
    ),
    (
        {WORKER: worker(memory="1 GiBi")},
        (),
        "job.yaml:4: services.worker.resources.memory: expected a size such as 512 MiB or 1 GiB, "
        "found the unit 'GiBi' in '1 GiBi'",
    ),
    (
        {WORKER: worker(memory="319")},
        (),
        "job.yaml:4: services.worker.resources.memory: 319 MiB is too small for a worker: "
        "expected at least 320 MiB",
    ),
    (
        {SERVER: server(memory="512 MiB", vcores="4")},
        (),
        "job.yaml:3: services.server.resources.memory: 512 MiB is too small for 4 server "
        "processes (one for each vcore): expected at least 640 MiB",
    ),
    (
        {},
        ("master: {resources: {memory: 256, vcores: 1}}",),
        "job.yaml:9: master.resources.memory: 256 MiB is too small for the AM: "
        "expected at least 400 MiB",
    ),
    (
        {},
        ("master: {log_level: debugg}",),
        "job.yaml:9: master.log_level: expected ALL, TRACE, DEBUG, INFO, WARN, ERROR, FATAL or "
        "OFF, found the text 'debugg'; did you mean DEBUG?",
    ),
    (
        {1: "name: 7"},
        (),
        'job.yaml:1: name: expected a text, found the number 7: put it in quotes (name: "7")',
    ),
    (
        {DATA: "  data: {train: data, format: libsvn}"},
        (),
        "job.yaml:7: yarnps.data.format: expected libsvm, csv, text, parquet or custom, "
        "found the text 'libsvn'; did you mean libsvm?",
    ),
    (
        {DATA: "  data: {train: []}"},
        (),
        "job.yaml:7: yarnps.data.train: expected at least one address, found an empty list",
    ),
    (
        {DATA: "  data:\n    train:\n    - a\n    - 3"},
        (),
        "job.yaml:10: yarnps.data.train[1]: expected a text, found the number 3: "
        'put it in quotes ("3")',
    ),
    (
        {DATA: "  data: {train: data, split_size: 0}"},
        (),
        "job.yaml:7: yarnps.data.split_size: expected auto or a size such as 512 MiB or 1 GiB, "
        "found 0",
    ),
    (
        {DATA: "  data: {train: data, max_bad_records: 1.5}"},
        (),
        "job.yaml:7: yarnps.data.max_bad_records: expected a count such as 100, or a share of "
        "all records such as 0.1% or 0.001, found 1.5",
    ),
    (
        {DATA: '  data: {train: data, format: csv, label: y, csv: {delimiter: ";;"}}'},
        (),
        "job.yaml:7: yarnps.data.csv.delimiter: expected one character (or tab), found ';;'",
    ),
    (
        {DATA: "  data: {train: data, format: csv, label: y, csv: {nulls: [NA, null]}}"},
        (),
        "job.yaml:7: yarnps.data.csv.nulls[1]: expected a text, found nothing",
    ),
    (
        {TRAIN: "  train: [epochs, 2]"},
        (),
        "job.yaml:8: yarnps.train: expected a mapping (key: value), found a list",
    ),
    (
        {},
        ("  checkpoint: {every: soon}",),
        "job.yaml:9: yarnps.checkpoint.every: expected a duration such as 60 s, 5 min or 2 h, "
        "found 'soon'",
    ),
    (
        {},
        ("  checkpoint: {every: 0}",),
        "job.yaml:9: yarnps.checkpoint.every: expected more than 0, found 0",
    ),
    (
        {},
        ("  server: {shards: 100}",),
        "job.yaml:9: yarnps.server.shards: expected a power of two such as 256 or 512, found 100",
    ),
    (
        {},
        ("  server: {shards: 4}",),
        "job.yaml:9: yarnps.server.shards: 4 shards are too few for 2 server processes "
        "(instances x vcores): expected at least 8",
    ),
    (
        {},
        ('  model: {path: "m/{day}"}',),
        "job.yaml:9: yarnps.model.path: unknown placeholder {day}: known are {date}, {app}, {name}",
    ),
    (
        {},
        ("  params: {alpha: 0}",),
        "job.yaml:9: yarnps.params.alpha: expected more than 0, found 0",
    ),
    (
        {},
        ("  params: {alpha: .nan}",),
        "job.yaml:9: yarnps.params.alpha: expected a finite number, found the number .nan",
    ),
    (
        {},
        ("  environment: env.rar",),
        "job.yaml:9: yarnps.environment: expected python:///path, venv:///path, conda://name, "
        "docker://image or an archive (.zip, .tar.gz, .tgz), found 'env.rar'",
    ),
]

RULES = [
    (
        {APP: "  environment: env.zip"},
        (),
        f"job.yaml:5: yarnps.app: missing: a built-in program ({KNOWN}) or services.worker.script",
    ),
    (
        {WORKER: worker(more="script: python train.py")},
        (),
        "job.yaml:6: yarnps.app: given together with services.worker.script: expected one of them",
    ),
    (
        {SERVER: server(more="script: python serve.py")},
        (),
        "job.yaml:3: services.server.script: the servers' program is yarnps' own: "
        "take the script out",
    ),
    (
        {},
        ("master: {script: python am.py}",),
        "job.yaml:9: master.script: not with a yarnps block, which runs its own program there: "
        "use services.worker.script",
    ),
    (
        {},
        ("master: {security: {cert_file: a, key_file: b}}",),
        "job.yaml:9: master.security: not with a yarnps block: each job gets a key pair of its own",
    ),
    (
        {WORKER: worker(more="depends: [servr]")},
        (),
        "job.yaml:4: services.worker.depends: there is no service 'servr'; did you mean server?",
    ),
    (
        {SERVER: server(more="depends: [worker]"), WORKER: worker(more="depends: [server]")},
        (),
        "job.yaml:3: services.server.depends: a circle: server -> worker -> server",
    ),
    (
        {WORKER: f"{worker()}\n{other('aside', 'depends: [server], script: x')}"},
        (),
        "job.yaml:5: services.aside.depends: a service beside the job cannot wait for 'server': "
        "yarnps starts that itself",
    ),
    (
        {WORKER: f"{worker()}\n{other('worker-retry', 'script: x')}"},
        ("  retry_memory: 1.5",),
        "job.yaml:5: services.worker-retry: the name is taken: with yarnps.retry_memory, "
        "yarnps makes a service worker-retry",
    ),
    (
        {DATA: "  data: {train: data, format: custom}"},
        (),
        "job.yaml:7: yarnps.data.parse: missing: format custom needs a function, module:function",
    ),
    (
        {DATA: '  data: {train: data, parse: "m:f"}'},
        (),
        "job.yaml:7: yarnps.data.parse: only with format custom, found the text 'libsvm'",
    ),
    (
        {DATA: "  data: {train: data, label: y}"},
        (),
        "job.yaml:7: yarnps.data.label: only with format csv or parquet, found the text 'libsvm'",
    ),
    (
        {DATA: "  data: {train: data, format: parquet}"},
        (),
        "job.yaml:7: yarnps.data.label: missing: ftrl needs the label's column with format parquet",
    ),
    (
        {DATA: "  data: {train: data, format: csv, label: y, features: [x, y]}"},
        (),
        "job.yaml:7: yarnps.data.features: holds the label 'y': "
        "the model would only learn to copy it",
    ),
    (
        {DATA: "  data: {train: data, format: text}"},
        (),
        "job.yaml:7: yarnps.data.format: ftrl needs labels and features: expected any but text",
    ),
    (
        {APP: "  app: word2vec"},
        (),
        "job.yaml:7: yarnps.data.format: word2vec needs lines of words: expected text, "
        "found libsvm",
    ),
    (
        {APP: "  app: word2vec", DATA: "  data: {train: data, format: text}"},
        ("  sync: {mode: bsp}",),
        "job.yaml:9: yarnps.sync.mode: word2vec's workers add to the vectors as they go: "
        "expected ssp or asp, found bsp",
    ),
    (
        {},
        ("  stop: {metric: test_acu}",),
        "job.yaml:9: yarnps.stop.metric: ftrl has no metric 'test_acu': "
        "known: test_auc, test_logloss; did you mean test_auc?",
    ),
    (
        {DATA: "  data: {train: data}"},
        ("  stop: {metric: test_auc}",),
        "job.yaml:9: yarnps.stop.metric: test_auc needs test input: give data.test",
    ),
    (
        {},
        ("  stop: {patience: 3}",),
        "job.yaml:9: yarnps.stop.patience: only with a metric: give stop.metric, too",
    ),
    ({}, ("  sync: {parts: 4}",), "job.yaml:9: yarnps.sync.parts: only with sync.mode bsp"),
    (
        {},
        ("  sync: {mode: bsp, parts: 2, spare: 2}",),
        "job.yaml:9: yarnps.sync.spare: expected less than the 2 parts of a step, found 2",
    ),
    (
        {},
        ("  sync: {mode: bsp}", "  server: {on_loss: replay}"),
        "job.yaml:10: yarnps.server.on_loss: replay is for ssp and asp: the steps of bsp are the "
        "same for all servers, expected rollback",
    ),
    (
        {},
        ("  sync: {mode: bsp}", "  server: {on_loss: patch}"),
        "job.yaml:10: yarnps.server.on_loss: patch is for ssp and asp: the steps of bsp are the "
        "same for all servers, expected rollback",
    ),
]

NOT_YET = [
    (
        "  server: {replicas: 2}",
        "yarnps.server.replicas: 2 is not available in this version: use 1",
    ),
]


@pytest.mark.parametrize(("changes", "added", "expected"), [*KEYS, *VALUES, *RULES])
def test_one_mistake_is_one_problem(
    problems: Problems, changes: dict[int, str], added: tuple[str, ...], expected: str
) -> None:
    assert problems(changes, *added) == [expected]


@pytest.mark.parametrize(("line", "expected"), NOT_YET)
def test_what_comes_later_is_refused(problems: Problems, line: str, expected: str) -> None:
    assert problems({}, line) == [f"job.yaml:9: {expected}"]


def test_all_mistakes_are_named_at_once(write: Write) -> None:
    name = write(
        {
            1: "nmae: flights",
            SERVER: server(memory="100 MiB").replace("2", "-2"),
            WORKER: worker(more="env: {A: 1}"),
            TRAIN: "  train: {epoch: 2}",
        },
        "  sync: {mode: bsp, spare: 9}",
        "  params: {alfa: 1}",
    )
    with pytest.raises(JobFileError) as caught:
        load(name, site=[])
    assert str(caught.value) == "\n".join(
        (
            "7 problems in job.yaml:",
            "  job.yaml:1: nmae: unknown key; did you mean name?",
            "  job.yaml:3: services.server.instances: expected at least 1, found -2",
            "  job.yaml:3: services.server.resources.memory: 100 MiB is too small for a server: "
            "expected at least 320 MiB",
            "  job.yaml:4: services.worker.env.A: expected a text, found the number 1: "
            'put it in quotes (A: "1")',
            "  job.yaml:8: yarnps.train.epoch: unknown key; did you mean epochs?",
            "  job.yaml:9: yarnps.sync.spare: expected less than the 3 parts of a step, found 9",
            "  job.yaml:10: yarnps.params.alfa: unknown parameter of ftrl: "
            "known: hash_buckets, alpha, beta, l1, l2, bias, admit, when_full; did you mean alpha?",
            "  every key is described in docs/job-file.md; `yarnps schema` helps your editor",
        )
    )
    assert caught.value.exit_code == 2


def test_a_problem_has_its_parts(write: Write) -> None:
    with pytest.raises(JobFileError) as caught:
        load(write({TRAIN: "  train: {epoch: 2}"}), site=[])
    (problem,) = caught.value.problems
    assert problem == (8, "yarnps.train.epoch", "unknown key", "epochs", "job.yaml")
