"""Where groups can be made, on made-up hierarchies: version 2 in particular, which not every kernel here has whole."""

import os

import pytest

from brokerlab.brokers.cgroups import NotHereError, Place, find_places, make_group
from brokerlab.brokers.limits import Cage, Effect
from brokerlab.errors import UserError
from brokerlab.study.limit_values import Limits

pytestmark = pytest.mark.unit
ALL = "cpuset cpu io memory pids"
HALF_A_CORE = Limits(cpus=0.5, cores=(min(os.sched_getaffinity(0)),), memory_bytes=256_000_000, swap_bytes=0)


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERLAB_STATE", str(tmp_path / "state"))


class FakeKernel:
    """Files as the kernel shows them, for a process in one group of version 2."""

    def __init__(self, folder, *, own, first=()):
        self.proc, self.top = folder / "proc", folder / "cgroup"
        self.proc.mkdir()
        (self.proc / "mountinfo").write_text(
            "".join(
                f"3{number} 31 0:4{number} / {folder / name} rw,relatime - cgroup cgroup rw,{name}\n"
                for number, name in enumerate(first)
            )
            + f"41 31 0:38 / {self.top} rw,relatime - cgroup2 cgroup2 rw\n"
        )
        lines = [f"{number}:{name}:/\n" for number, name in enumerate(first, start=1)]
        (self.proc / "cgroup").write_text("".join(lines) + f"0::{own}\n")

    def group(self, name, *, has=ALL, hands_on="", pids=""):
        folder = self.top / name.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(has)
        (folder / "cgroup.subtree_control").write_text(hands_on)
        (folder / "cgroup.procs").write_text(pids)
        if name != "/":
            (folder / "cgroup.type").write_text("domain")
        return folder


def test_the_nearest_ancestor_that_hands_on_controllers_is_taken(tmp_path):
    kernel = FakeKernel(tmp_path, own="/user.slice/user@7.service/app.slice/run.scope")
    kernel.group("/", hands_on=ALL)
    kernel.group("/user.slice", hands_on=ALL)
    kernel.group("/user.slice/user@7.service", hands_on=ALL)
    app = kernel.group("/user.slice/user@7.service/app.slice", hands_on="cpu memory pids")
    kernel.group("/user.slice/user@7.service/app.slice/run.scope", pids="4711")

    assert find_places(["cpu", "memory"], proc=kernel.proc) == [Place(2, app, ("cpu", "memory"))]
    assert find_places(["cpuset"], proc=kernel.proc) == [Place(2, app, ("cpuset",), to_enable=("cpuset",))]


def test_our_own_group_is_taken_where_it_is_the_root(tmp_path):
    kernel = FakeKernel(tmp_path, own="/")
    root = kernel.group("/", pids="1 4711")
    place = Place(2, root, ("memory",), to_enable=("memory",))

    assert find_places(["memory"], proc=kernel.proc) == [place]

    make_group(place, "brokerlab-x")
    assert (root / "cgroup.subtree_control").read_text() == "+memory"


def test_a_container_whose_only_group_has_processes_says_so(tmp_path):
    kernel = FakeKernel(tmp_path, own="/")
    (kernel.group("/", pids="1 4711") / "cgroup.type").write_text("domain")

    with pytest.raises(NotHereError, match="has processes of its own"):
        find_places(["memory"], proc=kernel.proc)


def test_a_controller_that_the_kernel_lacks_is_named(tmp_path):
    kernel = FakeKernel(tmp_path, own="/")
    kernel.group("/", has="hugetlb")

    with pytest.raises(NotHereError, match="has no controller cpu and memory"):
        find_places(["memory", "cpu"], proc=kernel.proc)
    with pytest.raises(UserError, match=r"not limited here: .* has no controller cpu"):
        Cage(Limits(cpus=1), proc=kernel.proc).make()
    assert not (tmp_path / "state").exists() or list((tmp_path / "state").iterdir()) == []


def test_hybrid_hierarchies_take_each_controller_where_it_is(tmp_path):
    kernel = FakeKernel(tmp_path, own="/", first=["cpu"])
    (tmp_path / "cpu").mkdir()
    root = kernel.group("/", hands_on=ALL)

    assert find_places(["cpu", "memory"], proc=kernel.proc) == [
        Place(1, tmp_path / "cpu", ("cpu",)),
        Place(2, root, ("memory",)),
    ]


def as_kernel_fills(group):
    """A group of version 2 that has just been used."""
    (group / "cpu.stat").write_text("usage_usec 9\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n")
    (group / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n")
    (group / "memory.peak").write_text("255852544\n")


def test_limits_of_version_2_are_written_and_their_effect_is_read(tmp_path, monkeypatch):
    kernel = FakeKernel(tmp_path, own="/a")
    root = kernel.group("/", hands_on=ALL)
    kernel.group("/a", pids="4711")
    made = root.mkdir

    def mkdir_with_swap(path, *arguments, **options):
        made.__func__(path, *arguments, **options)
        if path.name.startswith("brokerlab-"):
            (path / "memory.swap.max").write_text("max")

    monkeypatch.setattr("pathlib.Path.mkdir", mkdir_with_swap)
    cage = Cage(HALF_A_CORE, proc=kernel.proc)
    cage.make()
    (group,) = (path.parent for path in cage.joins)

    assert {file.name: file.read_text() for file in group.iterdir()} == {
        "cpu.max": "50000 100000",
        "cpuset.cpus": str(HALF_A_CORE.cores[0]),
        "memory.max": "256000000",
        "memory.swap.max": "0",
    }
    as_kernel_fills(group)
    assert cage.read() == Effect(40, 10, 2.5, 255_852_544, 1)
    assert cage.obituary() == "the kernel killed 1 of the broker's processes at its limit of 256 MB of memory"
    for file in group.iterdir():
        file.unlink()  # the kernel's own files go with their group
    cage.remove()
    assert not group.exists()


def test_cores_are_an_affinity_where_no_group_can_be_made(tmp_path):
    kernel = FakeKernel(tmp_path, own="/")
    kernel.group("/", has="hugetlb")
    cage = Cage(Limits(cores=HALF_A_CORE.cores), proc=kernel.proc)
    cage.make()

    assert cage.joins == []
    assert cage.cores == HALF_A_CORE.cores


def test_a_core_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="not limited here: core 4095 is not for us to use"):
        Cage(Limits(cores=(4095,))).make()
