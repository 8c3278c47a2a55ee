"""The transformer of paper 004 (X-13)."""

import pytest

from brokerlab.bridge.paper004 import converted
from brokerlab.bridge.steps import Message


@pytest.mark.parametrize(("into", "out"), [(125_528, 11_076), (35_703, 9_131), (1_517, 518), (1_593, 1_523), (64, 64)])
def test_payloads_leave_as_the_paper_s_subscriber_got_them(into, out):
    payload = bytes(i % 251 for i in range(into))

    assert converted(Message("hub/0", payload)) == payload[:out]
