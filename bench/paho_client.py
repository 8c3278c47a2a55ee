"""A plain paho-mqtt publisher or subscriber, as its users write it: `python -m bench.paho_client ROLE PORT QOS COUNT`.

The subscriber prints `ready` when its SUBACK is there and ends after COUNT messages;
the publisher ends when COUNT messages are acknowledged.
"""

import sys
import threading

import paho.mqtt.client as mqtt

TOPIC = "bench/0"
PAYLOAD = bytes(64)


def subscribe(port: int, qos: int, count: int) -> None:
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    seen = 0

    def on_message(client: mqtt.Client, _userdata: object, _message: mqtt.MQTTMessage) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            client.disconnect()

    client.on_message = on_message
    client.on_connect = lambda client, *_: client.subscribe(TOPIC, qos)
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.connect("127.0.0.1", port)
    client.loop_forever()


def publish(port: int, qos: int, count: int) -> None:
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.max_queued_messages_set(0)
    client.max_inflight_messages_set(500)
    left, done = count, threading.Event()

    def on_publish(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    client.on_publish = on_publish
    client.connect("127.0.0.1", port)
    client.loop_start()
    for _ in range(count):
        client.publish(TOPIC, PAYLOAD, qos)
    done.wait()
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    role, *numbers = sys.argv[1:]
    (subscribe if role == "subscribe" else publish)(*map(int, numbers))
