"""Prints what kafka-python's consumer measures: one metric a line, its group, name and the names of its tags.
Arguments: bootstrap server, and a topic that has records."""

import sys

from kafka import KafkaConsumer

consumer = KafkaConsumer(
    sys.argv[2], bootstrap_servers=sys.argv[1], group_id="python-names", auto_offset_reset="earliest"
)
while not consumer.poll(timeout_ms=1000):
    pass
consumer.commit()
consumer.poll(timeout_ms=1000)
lines = {
    "\t".join([n.group, n.name, ",".join(sorted(n.tags))]) for n in consumer.metrics(raw=True)
}
consumer.close()
print("\n".join(sorted(lines)))
