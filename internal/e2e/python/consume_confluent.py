"""Consumes as a member of a group with confluent-kafka (librdkafka); its lines are those of consume.py.

Ends in an orderly way (commit, leave) when standard input ends or SIGTERM comes.
"""

import json
import os
import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def text(data):
    return None if data is None else data.decode("utf-8", "backslashreplace")


def numbers(partitions):
    return sorted(p.partition for p in partitions)


class Owned:
    """What is assigned: eager rebalances tell of all of it, cooperative ones of what comes and goes."""

    def __init__(self):
        self.partitions = set()

    def assigned(self, _, partitions):
        self.partitions.update(numbers(partitions))
        say({"assigned": sorted(self.partitions)})

    def revoked(self, _, partitions):
        self.partitions.difference_update(numbers(partitions))
        say({"assigned": sorted(self.partitions)})

    def lost(self, _, partitions):
        self.partitions.difference_update(numbers(partitions))
        say({"lost": numbers(partitions)})


def store(consumer, message):
    """Only what was told of may be committed, or a member that is killed loses records."""
    try:
        consumer.store_offsets(message)
    except KafkaException as e:
        if e.args[0].code() != KafkaError._STATE:  # no longer ours
            raise


def main():
    bootstrap, group, topic, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False, **options})
    owned = Owned()
    consumer.subscribe([topic], on_assign=owned.assigned, on_revoke=owned.revoked, on_lost=owned.lost)
    while not ended.is_set():
        m = consumer.poll(0.1)
        if m is None:
            continue
        if m.error():
            say({"fault": str(m.error())})
            continue
        say({"topic": m.topic(), "partition": m.partition(), "offset": m.offset(), "key": text(m.key()), "value": text(m.value()),
             "at": int(time.time() * 1000)})
        store(consumer, m)
    consumer.close()
    sys.stdout.flush()
    os._exit(0)


main()
