"""What a good job file becomes, and where its values come from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from yarnps.spec import Job, JobFileError, Role, load

Write = Callable[..., str]
Read = Callable[..., Job]
Problems = Callable[..., list[str]]

GIB = 2**30


def test_defaults(read: Read) -> None:
    job = read()
    assert (job.name, job.queue) == ("flights", "default")
    assert job.roles["server"] == Role("server", instances=2, memory=GIB, vcores=1)
    assert job.roles["worker"].max_restarts == 3
    block = job.block
    assert block is not None
    assert (block.data.train, block.data.test) == (("data/*",), ("test/*",))
    assert (block.data.format, block.data.split_size) == ("libsvm", "auto")
    assert block.data.csv.nulls == ("", "NA", "null", "NaN")
    assert (block.sync.mode, block.sync.staleness) == ("ssp", 4)
    assert (block.server.shards, block.on_loss) == (256, "replay")
    assert block.sync.parts_of(3) is None
    assert (block.checkpoint.every, block.checkpoint.keep) == (60.0, 3)
    assert (block.start_timeout, block.am_silence, block.silence) == (600.0, 300.0, 60.0)
    assert block.retention == 30 * 86400
    assert block.params == {
        "hash_buckets": None, "alpha": 0.1, "beta": 1.0, "l1": 1.0, "l2": 0.0, "bias": True,
        "admit": 1, "when_full": "fail"
    }  # fmt: skip


def test_roles_hold_what_the_file_says(read: Read) -> None:
    service = "{instances: 3, resources: {memory: 700, vcores: 2}, max_restarts: 0,"
    more = 'allow_failures: true, env: {A: "1"}, nodes: [n1], depends: [server], script: go}'
    job = read({4: f"  worker: {service} {more}", 6: ""})
    assert job.roles["worker"] == Role(
        "worker",
        instances=3,
        memory=700 * 2**20,
        vcores=2,
        max_restarts=0,
        allow_failures=True,
        script="go",
        env={"A": "1"},
        nodes=("n1",),
        depends=("server",),
    )


def test_a_server_runs_a_process_for_each_vcore(read: Read) -> None:
    job = read({3: "  server: {instances: 2, resources: {memory: 1 GiB, vcores: 3}}"})
    assert job.roles["server"].processes == 3
    assert job.roles["worker"].processes == 1


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("3", 3), ("0", 0), ("0.001", 0.001), ("0.1%", 0.001), ("0.0", 0), ('"5 %"', 0.05)],
)
def test_bad_records(read: Read, written: str, read_as: float) -> None:
    block = read({7: f"  data: {{train: d, max_bad_records: {written}}}"}).block
    assert block is not None
    assert block.data.max_bad_records == read_as
    assert isinstance(block.data.max_bad_records, type(read_as))


def test_numbers_and_texts_are_read_as_they_look(read: Read) -> None:
    job = read(
        {6: "", 4: "  worker: {script: go, resources: {memory: 1 GiB, vcores: 1}}"},
        "  params: {a: 1e-3, b: 10:30, c: 2024-01-01, d: 010, e: 1_000, f: 0x10, g: yes, h: n,",
        "           i: -.5, j: 1e6, k: ~, on: 1}",
    )
    assert job.block is not None
    assert job.block.params == {
        "a": 0.001, "b": "10:30", "c": "2024-01-01", "d": 10, "e": 1000, "f": 16, "g": True,
        "h": "n", "i": -0.5, "j": 1e6, "k": None, "on": 1,
    }  # fmt: skip


def test_an_empty_key_means_its_default(read: Read) -> None:
    job = read({}, "  stop:", "  checkpoint:", "    # every: 5 s", "  sync: {mode: }", "master:")
    assert job.block is not None
    assert job.block.stop.metric is None
    assert job.block.checkpoint.every == 60.0
    assert job.block.sync.mode == "ssp"


def test_anchors_and_merges(read: Read) -> None:
    job = read(
        {
            3: "  server: &s {instances: 2, resources: {memory: 1 GiB, vcores: 1}}",
            4: "  worker: {<<: *s, instances: 5}",
        }
    )
    assert job.roles["worker"].instances == 5
    assert job.roles["worker"].memory == GIB


def test_a_mistake_in_a_merged_part_is_found_where_it_stands(problems: Problems) -> None:
    found = problems(
        {
            3: "  server: &s\n    instances: 2\n    resources: {memory: 1 GiB, vcores: two}",
            4: "  worker: {<<: *s, instances: 5}",
        }
    )
    text = "resources.vcores: expected a whole number, found the text 'two'"
    assert found == [
        f"job.yaml:5: services.server.{text}",
        f"job.yaml:5: services.worker.{text}",
    ]


def test_json_job_files() -> None:
    resources = {"memory": "1 GiB", "vcores": 1}
    text = json.dumps(
        {
            "services": {"server": {"resources": resources}, "worker": {"resources": resources}},
            "yarnps": {"app": "ftrl", "data": {"train": "x"}},
        },
        indent="\t",
    )
    Path("small.json").write_text(text)
    job = load("small.json", site=[])
    assert job.name == "small"
    assert job.roles["worker"].instances == 1


def test_a_job_survives_its_json(read: Read) -> None:
    job = read({}, "  model: {path: 'm/{date}'}", "  stop: {metric: test_auc, max_time: 2 h}")
    assert Job.from_json(job.to_json()) == job


def test_json_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="not a job as this version of yarnps writes it"):
        Job.from_json('{"format": 99}')


def test_jobs_do_not_change(read: Read) -> None:
    job = read()
    with pytest.raises(FrozenInstanceError):
        job.name = "other"  # type: ignore[misc]


PLAIN = """\
name: plain
services:
  web: {instances: 2, resources: {memory: 128, vcores: 1}, script: python -m http.server}
"""


def test_a_file_without_the_block_stays_as_it_is(folder: Path) -> None:
    Path("plain.yaml").write_text(PLAIN)
    (folder / "site.yaml").write_text("queue: prod\nyarnps: {app: ftrl}\n")
    job = load("plain.yaml", site=[folder / "site.yaml"])
    assert job.block is None
    assert job.roles == {}
    assert job.skein == {
        "name": "plain",
        "services": {
            "web": {
                "instances": 2,
                "resources": {"memory": 128, "vcores": 1},
                "script": "python -m http.server",
            }
        },
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            PLAIN.replace(", script: python -m http.server", ""),
            "plain.yaml:3: services.web.script: missing: the bash script of the service",
        ),
        ("name: x\n", "plain.yaml: services: missing: at least one service, or master.script"),
        (PLAIN + "yarnsp: {}\n", "plain.yaml:4: yarnsp: unknown key; did you mean yarnps?"),
    ],
)
def test_mistakes_of_a_file_without_the_block(text: str, expected: str) -> None:
    Path("plain.yaml").write_text(text)
    with pytest.raises(JobFileError) as caught:
        load("plain.yaml", site=[])
    assert caught.value.what == expected


def test_set_changes_any_key(read: Read) -> None:
    job = read(
        sets=(
            "yarnps.train.epochs=3",
            "services.worker.instances=5",
            'services.worker.files."train.py"=lib/train.py',
            "services.worker.env.N=08",
            "yarnps.data.train=[a, b]",
            "yarnps.checkpoint={every: 5 s}",
            "yarnps.model.path=m/{date}=x",
            "yarnps.data.test=",
            "yarnps.train.epochs=4",
        )
    )
    assert job.block is not None
    assert job.block.train.epochs == 4
    assert job.roles["worker"].instances == 5
    assert job.roles["worker"].env == {"N": "08"}
    assert job.skein["services"]["worker"]["files"] == {"train.py": "lib/train.py"}
    assert job.block.data.train == ("a", "b")
    assert job.block.data.test is None
    assert job.block.checkpoint.every == 5.0
    assert job.block.model.path == "m/{date}=x"


SETS = [
    ("yarnps.train.epoch=3", "yarnps.train.epoch: unknown key; did you mean epochs?"),
    ("yarnps.train.epochs=0", "yarnps.train.epochs: expected at least 1, found 0"),
    (
        "services.worker.instances=-2",
        "services.worker.instances: expected at least 1, found -2",
    ),
    ("epochs", "expected path=value, such as yarnps.train.epochs=3"),
    (
        "yarnps.data.train[0]=3",
        "'yarnps.data.train[0]' is not a path of keys: expected such as "
        "services.worker.instances; a list is set as a whole",
    ),
    (
        "=3",
        "'' is not a path of keys: expected such as services.worker.instances; "
        "a list is set as a whole",
    ),
    ("name.first=x", "name: name is not a mapping"),
    (
        "yarnps.sync={mode: ssp",
        "the value is not valid YAML: expected ',' or '}', but got '<stream end>'",
    ),
    ("yarnps.params.alfa=1", "yarnps.params.alfa: unknown parameter of ftrl: "
     "known: hash_buckets, alpha, beta, l1, l2, bias, admit, when_full; did you mean alpha?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SETS)
def test_a_wrong_set_is_named(problems: Problems, text: str, expected: str) -> None:
    assert problems(sets=(text,)) == [f"--set {text}: {expected}"]


def test_layers_of_defaults(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, named = folder / "home", folder / "team.yaml"
    (home / ".config").mkdir(parents=True)
    (home / ".config" / "yarnps.yaml").write_text(
        "queue: mine\nyarnps: {train: {seed: 5, epochs: 9}, checkpoint: {keep: 7}}\n"
    )
    named.write_text("yarnps:\n  train: {seed: 6}\n  retention: 7 d\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("YARNPS_CONFIG", str(named))
    job = load(write(), sets=["yarnps.checkpoint.every=9"])
    assert job.block is not None
    origins = {source.path: (source.value, source.origin) for source in job.sources()}
    assert job.queue == "mine"
    mine = home / ".config" / "yarnps.yaml"
    assert origins["queue"] == ("mine", f"{mine}:1")
    assert origins["yarnps.train.seed"] == (6, f"{named}:2")
    assert origins["yarnps.train.epochs"] == (2, "job.yaml:8")
    assert origins["yarnps.train.pace"] == (0.0, "default")
    assert origins["yarnps.checkpoint.keep"] == (7, f"{mine}:2")
    assert origins["yarnps.checkpoint.every"] == (9.0, "--set yarnps.checkpoint.every=9")
    assert origins["yarnps.retention"] == (604800.0, f"{named}:3")
    assert origins["services.worker.instances"] == (3, "job.yaml:4")
    assert origins["services.worker.max_restarts"] == (3, "default")


def test_a_mistake_in_site_defaults_is_found_there(write: Write, folder: Path) -> None:
    site = folder / "site.yaml"
    site.write_text("# ours\nyarnps:\n  train: {sede: 1}\n")
    with pytest.raises(JobFileError) as caught:
        load(write(), site=[site])
    expected = f"{site}:3: yarnps.train.sede: unknown key; did you mean seed?"
    assert caught.value.what == expected


def test_empty_site_defaults_say_nothing(write: Write, folder: Path) -> None:
    (folder / "site.yaml").write_text("\n# nothing yet\n")
    assert load(write(), site=[folder / "site.yaml"]).name == "flights"


def test_a_named_file_of_defaults_has_to_exist(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("YARNPS_CONFIG", "gone.yaml")
    with pytest.raises(JobFileError) as caught:
        load(write())
    assert caught.value.what == "gone.yaml: no such file"


def test_the_block_may_come_from_set_alone(problems: Problems, folder: Path) -> None:
    Path("plain.yaml").write_text(PLAIN)
    with pytest.raises(JobFileError) as caught:
        load("plain.yaml", sets=["yarnps.app=ftrl"], site=[])
    found = [problem.path for problem in caught.value.problems]
    assert found == ["services.server", "services.worker", "yarnps.data"]


@pytest.mark.parametrize(
    ("metric", "lower"),
    [("test_logloss", True), ("my_error", True), ("RMSE", True), ("test_auc", False)],
)
def test_which_values_of_a_metric_are_better(read: Read, metric: str, lower: bool) -> None:
    script = "  worker: {script: go, resources: {memory: 1 GiB, vcores: 1}}"
    block = read({4: script, 6: ""}, f"  stop: {{metric: {metric}}}").block
    assert block is not None and block.stop.lower_is_better is lower
    other = "min" if not lower else "max"
    block = read({4: script, 6: ""}, f"  stop: {{metric: {metric}, mode: {other}}}").block
    assert block is not None and block.stop.lower_is_better is not lower


def test_params_of_a_program_of_ones_own_have_to_be_json(problems: Problems) -> None:
    script = "  worker: {script: go, resources: {memory: 1 GiB, vcores: 1}}"
    found = problems({4: script, 6: ""}, f"  params: {{a: .{math.inf}}}")
    assert found == ["job.yaml:9: yarnps.params: expected finite numbers, found .inf or .nan"]


def test_bsp_has_a_part_for_each_worker_and_goes_back_as_a_whole(read: Read) -> None:
    block = read({}, "  sync: {mode: bsp}").block
    assert block is not None
    assert (block.sync.parts_of(3), block.sync.spare, block.on_loss) == (3, 0, "rollback")
    block = read({}, "  sync: {mode: bsp, parts: 8, spare: 1}").block
    assert block is not None
    assert block.sync.parts_of(3) == 8
    block = read({}, "  server: {on_loss: rollback}").block
    assert block is not None and block.on_loss == "rollback"
