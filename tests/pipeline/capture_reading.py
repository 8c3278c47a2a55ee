"""Capture files read without Spark, and a small talk to fill them with."""

from collections import Counter

import numpy as np
from capture_files import CONNACK, DISCONNECT, PINGREQ, PINGRESP, Talk, connect, puback, publish

from brokerlab.pipeline.capture import mqtt
from brokerlab.pipeline.capture.container import open_capture, parts_of, read_records
from brokerlab.pipeline.capture.follow import Connection, Room
from brokerlab.pipeline.capture.frames import TALLIES, read_segments


class Read:
    """Everything of one file, part by part, as Spark's tasks do it."""

    def __init__(self, path, *, split_bytes=1 << 26, ports=(1883,)):
        data = open_capture(str(path))
        parts = parts_of(str(path), split_bytes=split_bytes)
        self.parts = len(parts)
        self.records = [read_records(data, part) for part in parts]
        segments = [read_segments(data, records.rows, ports) for records in self.records]
        self.tallies = dict(zip(TALLIES, sum(each.tallies for each in segments).tolist(), strict=True))
        self.names = sorted({name for each in segments for name in each.names})
        self.places = [{name: at for at, name in enumerate(each.names)} for each in segments]
        room, packets, self.counts, fresh = Room(), [], [], []
        for name in self.names:
            connection = Connection(data, room)
            for each, places in zip(segments, self.places, strict=True):
                if name in places:
                    at = places[name]
                    rows = each.rows[each.starts[at] : each.starts[at + 1]].copy()
                    fresh.append(np.zeros(len(rows), dtype=np.int64))
                    packets += [found.copy() for found in connection.feed(rows, fresh[-1])]
            packets += [found.copy() for found in connection.finish()]
            self.counts.append(connection.counts())
        self.packets = np.concatenate([np.empty((0, mqtt.COLUMNS), np.int64), *packets])
        self.fresh_bytes = int(sum(each.sum() for each in fresh))

    @property
    def types(self):
        return Counter(mqtt.TYPES[kind & 15] for kind in self.packets[:, mqtt.KIND].tolist())

    def publishes(self, column):
        rows = self.packets[(self.packets[:, mqtt.KIND] & 15) == mqtt.PUBLISH]
        return rows[:, column].tolist()


def ten_messages(**about):
    """Ten publications at QoS 1, acknowledged, and a ping; 25 packets."""
    talk = Talk(**about).open().says(connect()).hears(CONNACK)
    for number in range(1, 11):
        talk.says(publish("a/b", bytes([number]) * 20, qos=1, number=number)).hears(puback(number))
    return talk.says(PINGREQ).hears(PINGRESP).says(DISCONNECT)
