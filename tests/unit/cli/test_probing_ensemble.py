"""What an ensemble's probe says in a few words, and what it refuses before anything starts."""

import pytest

from brokerlab.cli.probing_ensemble import probe_ensemble
from brokerlab.errors import UserError
from brokerlab.lab.probe.joined import Seen
from brokerlab.lab.probe.keeping import verdict_of


def seen(*crossing):
    return [Seen(0, 1, each, "") for each in crossing]


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        (seen(True, True), "crosses"),
        (seen(False, False), "does not cross"),
        (seen(True, False, None), "crosses on 1 of 2 ways"),
        (seen(None, None), "unknown"),
        ([Seen(0, 1, None, "", is_supported=False)], "not supported"),
    ],
)
def test_all_ways_together(ways, said):
    assert verdict_of(ways) == said


@pytest.mark.parametrize(
    ("name", "join", "said"),
    [
        ("mosquitto", "clutser", "must be cluster or bridge"),
        ("amqtt", "cluster", "amqtt has no clusters"),
        ("mosquito", None, "there is no driver 'mosquito'"),
    ],
)
def test_what_cannot_be_joined_is_refused(name, join, said):
    with pytest.raises(UserError) as caught:
        probe_ensemble(name, nodes=3, join=join, as_json=False)

    assert said in caught.value.message
    assert caught.value.hint
