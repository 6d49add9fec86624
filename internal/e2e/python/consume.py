"""Consumes as a member of a group with kafka-python; one JSON line per record and per change of the assignment.

Ends in an orderly way (commit, leave) when standard input ends or SIGTERM comes.
"""

import json
import os
import signal
import sys
import threading
import time

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

ASSIGNORS = {a.name: a for a in (RangePartitionAssignor, RoundRobinPartitionAssignor, CooperativeStickyAssignor)}


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def text(data):
    return None if data is None else data.decode("utf-8", "backslashreplace")


class Listener(kafka.ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer = consumer

    def on_partitions_revoked(self, revoked):
        say({"assigned": []})

    def on_partitions_lost(self, lost):
        say({"lost": sorted(tp.partition for tp in lost)})

    def on_partitions_assigned(self, assigned):
        say({"assigned": sorted(tp.partition for tp in self.consumer.assignment())})


def main():
    bootstrap, group, topic, options = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    if "partition_assignment_strategy" in options:
        options["partition_assignment_strategy"] = [ASSIGNORS[name] for name in options["partition_assignment_strategy"]]
    if "api_version" in options:
        options["api_version"] = tuple(options["api_version"])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), group_id=group, auto_offset_reset="earliest", **options)
    # 3.0.12 joins without its topics when it has not heard of them, and begins a join again and again when polls are
    # shorter than one.
    consumer.topics()
    consumer.subscribe([topic], listener=Listener(consumer))
    while not ended.is_set():
        for records in consumer.poll(timeout_ms=500).values():
            for r in records:
                say({"topic": r.topic, "partition": r.partition, "offset": r.offset, "key": text(r.key), "value": text(r.value),
                     "at": int(time.time() * 1000)})
    consumer.close()
    sys.stdout.flush()
    os._exit(0)


main()
