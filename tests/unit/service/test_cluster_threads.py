"""Tests of the threads of clusters."""

import threading
import time
from collections.abc import Iterator

import pytest

from hpc_board.service.passes import ClusterThreads
from tests.waiting import awaited


class Steps:
    """A step that counts its calls for each cluster, and hangs for those in `hanging` until `go_on`."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.hanging: set[str] = set()
        self.go_on = threading.Event()

    def __call__(self, cluster: str) -> None:
        self.counts[cluster] = self.counts.get(cluster, 0) + 1
        if cluster in self.hanging:
            self.go_on.wait(60)

    def goes_on(self, cluster: str) -> bool:
        """Return whether two further steps for the cluster begin within a second, or one that has begun ends."""
        before, deadline = self.counts.get(cluster, 0), time.monotonic() + 1
        while self.counts.get(cluster, 0) < before + 2:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True


@pytest.fixture
def steps() -> Iterator[Steps]:
    """Steps whose hanging ones end with the test."""
    found = Steps()
    yield found
    found.go_on.set()


def test_a_step_that_hangs_delays_no_other_cluster(steps: Steps) -> None:
    steps.hanging.add("far")
    threads = ClusterThreads(steps, 0.01, print)
    threads.run(["far", "near"])
    awaited(lambda: "far" in steps.counts)
    assert steps.goes_on("near")
    assert steps.counts["far"] == 1
    threads.stop(0.01)
    steps.go_on.set()
    threads.stop(60)
    assert not any(thread.name.startswith("cluster ") for thread in threading.enumerate())


def test_clusters_come_and_go_with_a_thread_each(steps: Steps) -> None:
    threads = ClusterThreads(steps, 0.01, print)
    threads.run(["a", "b"])
    assert steps.goes_on("a")
    threads.run(["b", "c"])
    awaited(
        lambda: (
            {each.name for each in threading.enumerate()} & {"cluster a", "cluster b", "cluster c"}
            == {
                "cluster b",
                "cluster c",
            }
        )
    )
    threads.run(["a", "b", "c"])
    assert steps.goes_on("a")
    threads.stop(60)
    before = dict(steps.counts)
    threads.run(["d"])
    threads.wake()
    assert steps.counts == before


def test_one_that_hangs_while_its_cluster_goes_and_returns_is_no_second_one_afterwards(steps: Steps) -> None:
    steps.hanging.add("a")
    threads = ClusterThreads(steps, 0.01, print)
    threads.run(["a"])
    awaited(lambda: "a" in steps.counts)
    threads.run([])
    threads.run(["a"])
    awaited(lambda: steps.counts["a"] == 2)
    steps.go_on.set()
    awaited(lambda: sum(each.name == "cluster a" for each in threading.enumerate()) == 1)
    assert steps.goes_on("a")
    threads.stop(60)


def test_a_wake_begins_the_next_step_at_once(steps: Steps) -> None:
    threads = ClusterThreads(steps, 3600, print)
    threads.run(["a"])
    awaited(lambda: steps.counts.get("a") == 1)
    threads.wake()
    awaited(lambda: steps.counts["a"] == 2)
    threads.stop(60)


def test_a_step_that_fails_is_told_and_followed_by_others() -> None:
    calls: list[str] = []
    failed: list[str] = []

    def fail(cluster: str) -> None:
        calls.append(cluster)
        raise OSError("the disk is gone")

    threads = ClusterThreads(fail, 0.01, failed.append)
    threads.run(["a"])
    awaited(lambda: len(calls) >= 3)
    threads.stop(60)
    assert len(failed) == len(calls)


def test_the_age_of_the_oldest_step_is_known(steps: Steps) -> None:
    steps.hanging.add("far")
    threads = ClusterThreads(steps, 0.01, print)
    assert threads.oldest_seconds == 0.0
    threads.run(["far", "near"])
    awaited(lambda: threads.oldest_seconds > 0.1)
    steps.go_on.set()
    steps.hanging.clear()
    awaited(lambda: threads.oldest_seconds < 0.1)
    threads.stop(60)
