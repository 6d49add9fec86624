"""Carries out steps with kafka-python's consumers and tells what they observe.

Standard input: JSON lines {"session", "prefix", "words"}, without words at the end of a session; standard output: {"session",
"lines"} for each step. Sessions run beside
each other, the steps of one in order. What the steps mean is told in internal/e2e/sidebyside; names of topics and groups have
the session's prefix on the broker, and not in what is told.
"""

import json
import os
import queue
import sys
import threading
import time

import kafka
from kafka import errors
from kafka.structs import OffsetAndMetadata

BOOTSTRAP = sys.argv[1].split(",")
OUT = threading.Lock()


def shown(data):
    if data is None:
        return "null"
    if all(0x20 <= b <= 0x7E for b in data):
        return "'" + data.decode("ascii") + "'"
    return "x" + data.hex()


def name_of(error):
    """The error in the words that both clients' errors are put in."""
    text = str(error)
    by_text = [
        ("Requires group_id", "no-group"), ("Unassigned partition", "not-assigned"), ("Partition is not assigned", "not-assigned"),
        ("is closed", "closed"), ("only one way to configure", "conflict"), ("No partitions are currently", "not-assigned"),
    ]
    for part, name in by_text:
        if part in text:
            return name
    by_class = {
        errors.NoOffsetForPartitionError: "no-offset", errors.OffsetOutOfRangeError: "out-of-range",
        errors.CommitFailedError: "commit-failed", errors.KafkaTimeoutError: "timeout", errors.KafkaConfigurationError: "config",
        errors.UnknownTopicOrPartitionError: "unknown-topic", errors.InvalidTopicError: "invalid-topic",
        errors.OffsetMetadataTooLargeError: "metadata-too-large", errors.InvalidGroupIdError: "invalid-group",
        ValueError: "argument", TypeError: "argument",
    }
    return by_class.get(type(error), type(error).__name__)


class Listener(kafka.ConsumerRebalanceListener):
    def __init__(self, session, name):
        self.session, self.name = session, name

    def tell(self, what, tps):
        self.session.events.append(" ".join([self.name, what] + self.session.named(tps)))

    def on_partitions_revoked(self, revoked):
        self.tell("revoked", revoked)

    def on_partitions_assigned(self, assigned):
        self.tell("assigned", assigned)


class Session:
    def __init__(self, name, prefix):
        self.name, self.prefix = name, prefix
        self.consumers, self.events = {}, []
        self.steps = queue.Queue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            words = self.steps.get()
            if not words:
                return self.finish()
            try:
                lines = self.step(words)
            except Exception as e:
                lines = ["error " + name_of(e)]
                if os.environ.get("SIDEBYSIDE_ERRORS"):
                    sys.stderr.write("%s %s: %r\n" % (self.name, words, e))
            lines += self.events
            self.events = []
            with OUT:
                sys.stdout.write(json.dumps({"session": self.name, "lines": lines}) + "\n")
                sys.stdout.flush()

    def finish(self):
        for c in self.consumers.values():
            try:
                c.close(autocommit=False, timeout_ms=1000)
            except Exception as e:
                sys.stderr.write("%s: close: %r\n" % (self.name, e))

    # Names.

    def tp(self, word):
        topic, partition = word.rsplit("/", 1)
        return kafka.TopicPartition(self.prefix + topic, int(partition))

    def short(self, topic):
        return topic[len(self.prefix):] if topic.startswith(self.prefix) else topic

    def of(self, tp):
        return "%s/%d" % (self.short(tp.topic), tp.partition)

    def named(self, tps):
        return [self.of(tp) for tp in sorted(tps)]

    # Steps.

    def step(self, words):
        name, op, args = words[0], words[1], words[2:]
        options = dict(a.split("=", 1) for a in args if "=" in a)
        plain = [a for a in args if "=" not in a]
        self.within = int(options.pop("within", 30000))
        if op == "new":
            return self.new(name, plain, options)
        return getattr(self, op.replace("-", "_"))(self.consumers[name], plain, options) or ["done"]

    def new(self, name, topics, options):
        config = {}
        for key, value in options.items():
            try:
                config[key] = json.loads(value)
            except ValueError:
                config[key] = value
        if "group_id" in config:
            config["group_id"] = self.prefix + config["group_id"]
        self.consumers[name] = kafka.KafkaConsumer(bootstrap_servers=BOOTSTRAP, **config)
        return self.subscribe(self.consumers[name], topics, {}) if topics else ["done"]

    def subscribe(self, c, plain, options):
        listener = Listener(self, options["listener"]) if "listener" in options else None
        c.subscribe([self.prefix + t for t in plain], listener=listener)
        self.hear_of_topics(c)
        return ["done"]

    def hear_of_topics(self, c):
        """Has the consumer learn of its topics before it joins: 3.0.12 joins without, and then again or much later."""
        c.topics()

    def pattern(self, c, plain, options):
        c.subscribe(pattern="^" + self.prefix + plain[0])
        self.hear_of_topics(c)

    def assign(self, c, plain, options):
        c.assign([self.tp(w) for w in plain])

    def unsubscribe(self, c, plain, options):
        c.unsubscribe()

    def assignment(self, c, plain, options):
        return [" ".join(["assignment"] + self.named(c.assignment()))]

    def subscription(self, c, plain, options):
        return [" ".join(["subscription"] + sorted(self.short(t) for t in c.subscription() or []))]

    def paused(self, c, plain, options):
        return [" ".join(["paused"] + self.named(c.paused()))]

    def pause(self, c, plain, options):
        c.pause(*[self.tp(w) for w in plain])

    def resume(self, c, plain, options):
        c.resume(*[self.tp(w) for w in plain])

    def seek(self, c, plain, options):
        c.seek(self.tp(plain[0]), int(plain[1]))

    def seek_beginning(self, c, plain, options):
        c.seek_to_beginning(*[self.tp(w) for w in plain])

    def seek_end(self, c, plain, options):
        c.seek_to_end(*[self.tp(w) for w in plain])

    def position(self, c, plain, options):
        return ["position %s %s" % (w, c.position(self.tp(w), timeout_ms=self.within)) for w in plain]

    def highwater(self, c, plain, options):
        return ["highwater %s %s" % (w, c.highwater(self.tp(w))) for w in plain]

    def beginning(self, c, plain, options):
        return self.offsets("beginning", c.beginning_offsets([self.tp(w) for w in plain], timeout_ms=self.within))

    def end(self, c, plain, options):
        return self.offsets("end", c.end_offsets([self.tp(w) for w in plain], timeout_ms=self.within))

    def offsets(self, what, found):
        return ["%s %s %d" % (what, self.of(tp), found[tp]) for tp in sorted(found)]

    def times(self, c, plain, options):
        found = c.offsets_for_times({self.tp(w): int(ms) for w, ms in options.items()}, timeout_ms=self.within)
        return ["time %s %s" % (self.of(tp), "none" if found[tp] is None else "%d at %d" % (found[tp].offset, found[tp].timestamp))
                for tp in sorted(found)]

    def partitions(self, c, plain, options):
        return [" ".join(["partitions", t] + [str(p) for p in sorted(c.partitions_for_topic(self.prefix + t))]) for t in plain]

    def topics(self, c, plain, options):
        return [" ".join(["topics"] + sorted(self.short(t) for t in c.topics() if t.startswith(self.prefix)))]

    def committed(self, c, plain, options):
        lines = []
        for w in plain:
            o = c.committed(self.tp(w), metadata=True, timeout_ms=self.within)
            lines.append("committed %s %s" % (w, "none" if o is None else "%d %s" % (o.offset, shown(o.metadata.encode()))))
        return lines

    def to_commit(self, options):
        offsets = {}
        for w, value in options.items():
            offset, _, metadata = value.partition(":")
            offsets[self.tp(w)] = OffsetAndMetadata(int(offset), metadata, -1)
        return offsets or None

    def commit(self, c, plain, options):
        c.commit(self.to_commit(options), timeout_ms=self.within)

    def commit_async(self, c, plain, options):
        told = []

        def callback(offsets, response):
            result = "error " + name_of(response) if isinstance(response, Exception) else "done"
            told.append(" ".join(["callback"] + ["%s=%d" % (self.of(tp), offsets[tp].offset) for tp in sorted(offsets)] + [result]))

        c.commit_async(self.to_commit(options), callback=callback)
        end = time.monotonic() + 30
        while not told and time.monotonic() < end:
            c.poll(timeout_ms=20)
        return told or ["no callback"]

    def group_metadata(self, c, plain, options):
        m = c.group_metadata()
        group = None if m.group_id is None else self.short(m.group_id)
        return ["group %s member %s generation %s instance %s" % (group, "yes" if m.member_id else "no",
                                                                 "yes" if m.generation_id > 0 else "no", m.group_instance_id or "none")]

    def bootstrap_connected(self, c, plain, options):
        return ["connected " + str(c.bootstrap_connected()).lower()]

    def close(self, c, plain, options):
        c.close(**{k: json.loads(v) for k, v in options.items()})

    # Reading.

    def record(self, r):
        kind = {0: "create", 1: "append"}.get(r.timestamp_type, str(r.timestamp_type))
        headers = " ".join("%s=%s" % (k, shown(v)) for k, v in r.headers)
        return "%s/%d@%d key %s value %s time %s %s headers [%s] sizes %d %d %d epoch %s" % (
            self.short(r.topic), r.partition, r.offset, shown(r.key), shown(r.value), r.timestamp, kind, headers,
            r.serialized_key_size, r.serialized_value_size, r.serialized_header_size, r.leader_epoch)

    def listed(self, records):
        records.sort(key=lambda r: (r.topic, r.partition, r.offset))
        return ["%d records" % len(records)] + [self.record(r) for r in records]

    def gather(self, c, options, enough):
        """Polls until enough(records, polls) or until the time is over. An error ends it."""
        end = time.monotonic() + int(options.get("ms", 40000)) / 1000
        extra = {"max_records": int(options["max"])} if "max" in options else {}
        records, sizes = [], []
        while not enough(records) and time.monotonic() < end:
            # A poll that is too short for a join has 3.0.12 begin it again and again.
            timeout = max(1, min(500, int((end - time.monotonic()) * 1000)))
            try:
                got = [r for rs in c.poll(timeout_ms=timeout, **extra).values() for r in rs]
            except Exception as e:
                return records, sizes, ["error " + name_of(e)]
            records += got
            if got:
                sizes.append(str(len(got)))
        return records, sizes, []

    def poll(self, c, plain, options):
        n = int(plain[0])
        records, _, error = self.gather(c, options, lambda got: len(got) >= n)
        return self.listed(records) + error

    def sizes(self, c, plain, options):
        n = int(plain[0])
        _, sizes, error = self.gather(c, options, lambda got: len(got) >= n)
        return [" ".join(["sizes"] + sizes)] + error

    def poll_once(self, c, plain, options):
        records = [r for rs in c.poll(timeout_ms=int(options.get("ms", 0)), **(
            {"max_records": int(options["max"])} if "max" in options else {})).values() for r in rs]
        return self.listed(records)

    def quiet(self, c, plain, options):
        records, _, error = self.gather(c, {"ms": plain[0]}, lambda got: False)
        return self.listed(records) + error

    def until_assigned(self, c, plain, options):
        want = set(self.tp(w) for w in plain)
        asked = time.monotonic()

        def assigned(_):
            nonlocal asked
            if time.monotonic() > asked + 2:  # it does not always hear of what is new by itself
                self.hear_of_topics(c)
                asked = time.monotonic()
            return c.assignment() == want if want else c.assignment()

        records, _, error = self.gather(c, options, assigned)
        if "then" in options and not error:
            where, offset = options["then"].split("@")
            more, _, error = self.gather(c, options, lambda got: self.tells(self.position, c, where, offset))
            records += more
        return self.assignment(c, [], {}) + (self.listed(records) if records else []) + error

    def until_position(self, c, plain, options):
        return self.until(self.position, c, plain, options)

    def until_highwater(self, c, plain, options):
        return self.until(self.highwater, c, plain, options)

    def until_committed(self, c, plain, options):
        return self.until(self.committed, c, plain, options)

    def until(self, tell, c, plain, options):
        """Polls until what tell observes of a partition has a value."""
        records, _, error = self.gather(c, options, lambda got: self.tells(tell, c, *plain))
        return tell(c, plain[:1], {}) + (self.listed(records) if records else []) + error

    def tells(self, tell, c, where, value):
        """Whether the line of a partition, "committed t/0 5 …", has this value."""
        return tell(c, [where], {})[0].split()[2] == value

    def until_error(self, c, plain, options):
        records, _, error = self.gather(c, options, lambda got: False)
        return self.listed(records) + error

    def iterate(self, c, plain, options):
        n, records = int(plain[0]), []
        if n == 0:
            return ["ended"] if next(iter(c), None) is None else ["not ended"]
        for r in c:
            records.append(r)
            if len(records) == n:
                return self.listed(records)
        return self.listed(records) + ["ended"]


def main():
    sessions = {}
    for line in sys.stdin:
        m = json.loads(line)
        s = sessions.get(m["session"])
        if s is None:
            s = sessions[m["session"]] = Session(m["session"], m["prefix"])
        s.steps.put(m["words"])
    os._exit(0)


main()
