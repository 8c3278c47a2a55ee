import pytest

from brokerlab.load.spec import Progress
from brokerlab.load.window import PATIENCE_NS, Window

pytestmark = pytest.mark.unit

PUBLISHED, DELIVERED, OVERTAKEN, WINDOW = range(4)
PROGRESS = Progress((PUBLISHED,), (DELIVERED,), (OVERTAKEN,), WINDOW)


def make(counts, *, size=10, fan_out=1.0):
    counts += [0] * (4 - len(counts))
    return Window(size, fan_out=fan_out, counts=counts, progress=PROGRESS)


def test_room_is_the_window_less_what_is_outstanding():
    assert make([7, 3]).room(0) == 6


def test_little_room_is_kept_until_it_is_worth_a_block():
    assert make([10, 2]).room(0) == 0
    assert make([10, 3]).room(0) == 3


def test_with_fan_out_a_message_is_outstanding_until_all_copies_arrived():
    assert make([7, 9], fan_out=3.0).room(0) == 6


@pytest.mark.parametrize("lost", [8, 10], ids=["with too little room for a block", "full"])
def test_a_window_that_hears_nothing_is_written_off_and_counted(lost):
    counts = [lost, 0]
    window = make(counts)

    assert window.room(1) == 0
    assert window.room(1 + PATIENCE_NS) == 0
    assert window.room(2 + PATIENCE_NS) == 10
    assert window.written_off == lost


def test_progress_keeps_a_full_window_waiting():
    counts = [10, 0]
    window = make(counts)
    window.room(1)
    counts[:2] = [11, 1]

    assert window.room(2 + PATIENCE_NS) == 0
    assert window.written_off == 0


def test_a_message_that_later_ones_overtook_leaves_the_window():
    counts = [10, 7, 3, 0]

    assert make(counts).room(0) == 10


def test_the_size_stands_where_other_workers_see_it():
    counts = [0, 0, 0, 0]
    make(counts, size=33)

    assert counts[WINDOW] == 33
