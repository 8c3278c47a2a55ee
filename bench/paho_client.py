"""A plain paho-mqtt publisher or subscriber, as its users write it: `python -m bench.paho_client ROLE PORT QOS`.

Both go on until they are stopped. The publisher has at most so many messages outstanding, or paho's queue would grow
without end.
"""

import sys
import threading

import paho.mqtt.client as mqtt

TOPIC = "bench/0"
PAYLOAD = bytes(64)
OUTSTANDING = 2_000


def subscribe(port: int, qos: int) -> None:
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.on_message = lambda *_: None
    client.on_connect = lambda client, *_: client.subscribe(TOPIC, qos)
    client.connect("127.0.0.1", port)
    client.loop_forever()


def publish(port: int, qos: int) -> None:
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.max_queued_messages_set(0)
    client.max_inflight_messages_set(500)
    room = threading.Semaphore(OUTSTANDING)
    client.on_publish = lambda *_: room.release()
    client.connect("127.0.0.1", port)
    client.loop_start()
    while True:
        room.acquire()
        client.publish(TOPIC, PAYLOAD, qos)


if __name__ == "__main__":
    role, port, qos = sys.argv[1:]
    (subscribe if role == "subscribe" else publish)(int(port), int(qos))
