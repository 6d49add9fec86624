"""Produces the records of standard input, JSON lines of {"topic", "partition", "key", "value"}, with kafka-python."""

import json
import sys

import kafka


def data(text):
    return None if text is None else text.encode()


def main():
    bootstrap, options = sys.argv[1], json.loads(sys.argv[2])
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap.split(","), **options)
    sent = []
    for line in sys.stdin:
        r = json.loads(line)
        headers = [(h["key"], data(h["value"])) for h in r.get("headers") or []]
        sent.append(producer.send(r["topic"], key=data(r.get("key")), value=data(r.get("value")),
                                  partition=r.get("partition"), headers=headers, timestamp_ms=r.get("timestamp")))
    producer.flush()
    for future in sent:
        m = future.get(timeout=30)
        print(json.dumps({"partition": m.partition, "offset": m.offset}))
    producer.close()


main()
