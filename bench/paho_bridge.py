"""A plain bridge of two paho clients, as its users write it: `python -m bench.paho_bridge FROM TO QOS`."""

import sys

import paho.mqtt.client as mqtt

TOPIC = "bench/#"


def main(source_port: int, target_port: int, qos: int) -> None:
    target = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    target.max_queued_messages_set(0)
    target.max_inflight_messages_set(1000)
    target.connect("127.0.0.1", target_port)
    target.loop_start()
    source = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    source.on_connect = lambda client, *_: client.subscribe(TOPIC, qos)
    source.on_message = lambda _client, _data, message: target.publish(message.topic, message.payload, message.qos)
    source.connect("127.0.0.1", source_port)
    source.loop_forever()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
