"""The bridge as a joint between two nodes of the lab (F-08)."""

from brokerlab.bridge.joint import CONFIG, Side, joint_between


def test_a_joint_names_the_file_that_it_brings():
    joint = joint_between("0-1", Side("127.0.0.1:1883"), Side("127.0.0.1:1884", protocol="5.0"))

    assert joint.argv[-1] in joint.files
    assert '"127.0.0.1:1884"' in joint.files[CONFIG]


def test_a_password_is_named_and_not_told():
    side = Side("127.0.0.1:1883", user="lab", password="env:OF_LAB")

    joint = joint_between("0-1", side, Side("127.0.0.1:1884"))

    assert '"env:OF_LAB"' in joint.files[CONFIG]
