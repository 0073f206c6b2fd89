from __future__ import annotations

from collections.abc import Callable

from yarnps.spec import Ask, Job, Limits, needs

Read = Callable[..., Job]

MIB = 2**20
GIB = 2**30
LIMITS = Limits(min_memory=GIB, max_memory=4 * GIB, memory_step=512 * MIB, max_vcores=4)


def test_what_is_asked_for(read: Read) -> None:
    found = needs(read())
    assert found.asks == (
        Ask("master", 1, GIB, 1, GIB),
        Ask("server", 2, GIB, 1, GIB),
        Ask("worker", 3, GIB, 1, GIB),
    )
    assert (found.memory, found.vcores) == (6 * GIB, 6)
    assert (found.problems, found.warnings) == ((), ())


def test_the_am_needs_more_for_more_containers(read: Read) -> None:
    small = needs(read())
    assert small.am_memory == 400 * MIB + 5 * 256 * 1024
    many = needs(read(sets=("services.worker.instances=4000", "yarnps.server.shards=256")))
    assert many.am_memory == 400 * MIB + 4002 * 256 * 1024
    assert many.warnings == (
        "master.resources.memory: 1 GiB is little for 4002 containers: about 1.368 GiB is needed",
    )


def test_yarn_rounds_up(read: Read) -> None:
    line = "  worker: {instances: 3, resources: {memory: 1100, vcores: 1}}"
    found = needs(read({4: line}), LIMITS)
    assert found.asks[2] == Ask("worker", 3, 1100 * MIB, 1, 1536 * MIB)
    assert found.memory == 3 * GIB + 3 * 1536 * MIB
    assert found.warnings == ("worker: YARN rounds 1.074 GiB up to 1.5 GiB",)
    assert found.problems == ()


def test_small_requests_get_the_minimum() -> None:
    assert LIMITS.rounded(1) == GIB
    assert LIMITS.rounded(GIB) == GIB
    assert LIMITS.rounded(GIB + 1) == GIB + 512 * MIB


def test_more_than_the_cluster_gives_is_refused(read: Read) -> None:
    job = read(
        {4: "  worker: {instances: 3, resources: {memory: 5 GiB, vcores: 8}}"},
        "  retry_memory: 8",
    )
    assert [(p.line, f"{p.path}: {p.message}") for p in needs(job, LIMITS).problems] == [
        (
            4,
            "services.worker.resources.memory: 5 GiB is more than this cluster gives one "
            "container: at most 4 GiB",
        ),
        (
            4,
            "services.worker.resources.vcores: 8 is more than this cluster gives one "
            "container: at most 4",
        ),
        (
            9,
            "yarnps.retry_memory: 8 times the servers' memory, 8 GiB, is more than this cluster "
            "gives one container: at most 4 GiB",
        ),
    ]


def test_tables_against_server_memory(read: Read) -> None:
    fits = needs(read({}, "  params: {hash_buckets: 1048576}"))
    assert fits.table_memory == int(GIB * 0.7)
    assert fits.table_need == int(1048576 * 16 * 1.4) // 2
    assert fits.warnings == ()
    too_many = needs(read({}, "  params: {hash_buckets: 100000000}"))
    assert too_many.warnings == (
        "tables: up to 1.043 GiB on each server, where only 716.8 MiB may be used "
        "(server.table_memory of services.server.resources.memory): "
        "give servers more memory, or ask for more of them",
    )
    assert needs(read()).table_need is None
    small = needs(read({3: "  server: {instances: 2, resources: {memory: 400 MiB, vcores: 1}}"}))
    assert small.table_memory == 186 * MIB  # the process itself needs the rest


def test_tables_of_each_program(read: Read) -> None:
    ftrl = needs(read({}, "  params: {hash_buckets: 1000000}"))
    assert ftrl.table_need == 11_200_000  # 8 + 2 * 4 bytes, 1.4 times, on two servers
    fm = needs(read({6: "  app: fm"}, "  params: {hash_buckets: 1000000, dim: 16}"))
    assert fm.table_need == 106_400_000
    plain = "  params: {hash_buckets: 1000000, dim: 16, optimizer: sgd}"
    assert needs(read({6: "  app: fm"}, plain)).table_need == 58_800_000
    text = "  data: {train: [a], format: text}"
    words = {6: "  app: word2vec", 7: text}
    found = needs(read(words, "  params: {max_words: 100000, dim: 50}"))
    assert found.table_need == 29_120_000
    assert needs(read(words)).table_need is None


def test_what_servers_hold_of_a_step(read: Read) -> None:
    assert needs(read()).held == 0
    held = needs(read({}, "  sync: {mode: bsp}"))  # 3 parts, 2 servers, up to 8,192 rows
    assert held.held == 3 * 819_200 * (8 + 4 + 32 + 8) // 2
    assert held.warnings == ()
    few = "  params: {hash_buckets: 1000}"
    assert needs(read({}, few, "  sync: {mode: bsp, parts: 8}")).held == 8 * 1000 * 52 // 2
    large = needs(read({8: "  train: {batch_rows: 131072}"}, "  sync: {mode: bsp}"))
    assert large.warnings == (
        "bsp: about 975 MiB of pushes on each server until a step is closed, which is much for "
        "services.server.resources.memory 1 GiB: give servers more memory, ask for more of them, "
        "or set a smaller train.batch_rows",
    )
