"""Deaths in the middle of a training: every row still counts exactly once."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from engine_harness import Player, playing, write_input
from test_training import COUNT, expected_ones, model_of

FILES, ROWS, EPOCHS = 6, 1000, 2


def block(folder: Path, **train: Any) -> dict[str, Any]:
    return {
        "data": {"train": write_input(folder / "in", FILES, ROWS)},
        "train": {"epochs": EPOCHS, "batch_rows": 50, "audit": True, "pace": 0.02, **train},
    }


def counted(player: Player, folder: Path) -> dict[int, float]:
    player.export(folder / "model", tables=["count", "ones", "yarnps.rows"])
    return model_of(folder / "model", "count")


def assert_exact(player: Player, folder: Path) -> None:
    assert counted(player, folder) == {split: float(ROWS * EPOCHS) for split in range(FILES)}
    assert model_of(folder / "model", "yarnps.rows") == model_of(folder / "model", "count")
    assert model_of(folder / "model", "ones") == expected_ones(ROWS, FILES, EPOCHS)


def committed(player: Player, rows: int) -> Any:
    return lambda: player.rows_committed >= rows


def test_a_worker_dies(tmp_path: Path) -> None:
    with playing(tmp_path, block(tmp_path), COUNT) as player:
        player.wait(committed(player, 500), "the training runs")
        player.kill_worker(0)
        player.wait(committed(player, 3000), "it goes on")
        player.kill_worker(1)
        player.finish()
        assert_exact(player, tmp_path)


def test_a_server_dies_before_the_first_cut(tmp_path: Path) -> None:
    with playing(tmp_path, block(tmp_path), COUNT) as player:
        player.wait(committed(player, 500), "the training runs")
        player.kill_server(0)
        player.finish()
        assert_exact(player, tmp_path)


def test_a_server_dies_after_cuts_taken_while_training_runs(tmp_path: Path) -> None:
    with playing(tmp_path, block(tmp_path), COUNT) as player:
        player.wait(committed(player, 500), "the training runs")
        player.save_cut()
        player.wait(committed(player, 3000), "it goes on")
        player.save_cut()
        after = player.rows_committed
        player.wait(committed(player, after + 1000), "it goes beyond the cut")
        player.kill_server(1)
        player.wait(lambda: player.rows_committed > after, "it goes on again")
        player.save_cut()
        player.kill_server(0)
        player.finish()
        assert_exact(player, tmp_path)


def test_without_marks_the_count_is_wrong(tmp_path: Path) -> None:
    """The control: the same death, and servers that do not drop what they have applied."""
    env = {"YARNPS_FAULT_NO_MARKS": "1"}
    with playing(tmp_path, block(tmp_path), COUNT, env=env) as player:
        player.wait(committed(player, 1000), "the training runs")
        player.kill_server(0)
        player.finish()
        counts = counted(player, tmp_path)
        rows = model_of(tmp_path / "model", "ones")
    # The rows since the start were pushed twice to the server that lived.
    assert rows != expected_ones(ROWS, FILES, EPOCHS)
    assert sum(rows.values()) > sum(expected_ones(ROWS, FILES, EPOCHS).values())
    assert set(counts) == set(range(FILES))


def test_a_zombie_with_old_leases_changes_nothing(tmp_path: Path) -> None:
    with playing(tmp_path, block(tmp_path), COUNT, workers=3) as player:
        player.wait(committed(player, 500), "the training runs")
        zombie = player.freeze_worker(1)
        player.wait(committed(player, 4000), "the others have its splits")
        player.thaw_worker(zombie)
        player.wait(lambda: player.all_done, "all input is done")
        player.wait(
            lambda: (
                any(m.HasField("want") and m.want.idle for m in zombie.said[-3:])
                or zombie.popen.poll() == 0  # it was told first that there is no more to do
            ),
            "the zombie has found its leases void",
        )
        assert_exact(player, tmp_path)
        zombie.popen.send_signal(signal.SIGKILL)


def test_a_server_that_stands_still_loses_nothing(tmp_path: Path) -> None:
    """What was sent waits at the server; nobody sends it twice over a connection that lives."""
    with playing(tmp_path, block(tmp_path, pace=0), COUNT) as player:
        player.wait(committed(player, 500), "the training runs")
        server = player.of("server", 0)
        server.popen.send_signal(signal.SIGSTOP)
        before = [len(w.said) for w in player.alive("worker")]
        player.wait(
            lambda: all(
                len(w.said) >= n + 8 for w, n in zip(player.alive("worker"), before, strict=True)
            ),
            "seconds pass",
        )
        server.popen.send_signal(signal.SIGCONT)
        player.finish()
        assert_exact(player, tmp_path)
        duplicates = [m.stats.duplicates for m in server.said if m.HasField("stats")]
        assert duplicates[-1] == 0


@pytest.mark.parametrize("servers", [1, 3])
def test_one_training_many_deaths(tmp_path: Path, servers: int) -> None:
    with playing(tmp_path, block(tmp_path), COUNT, servers=servers, workers=3) as player:
        for number in range(4):
            rows = player.rows_committed
            further = committed(player, rows + 301)
            player.wait(lambda go=further: player.all_done or go(), "the training runs")  # type: ignore[misc]
            if number % 2:
                player.kill_server(number % servers)
            else:
                player.kill_worker(number % 3)
                player.save_cut()
        player.finish()
        assert_exact(player, tmp_path)
