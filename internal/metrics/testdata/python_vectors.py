"""Prints what the statistics of kafka-python 3.0.12 make of random sequences of values: one JSON object a line, with the
number of windows, their length and the records (time and value, in milliseconds) of a sensor, the time at which it is looked
at, and what is seen then. Each look is the first one: in kafka-python a look ends windows, and so changes what comes later."""

import json
import random

from kafka.metrics import MetricConfig
from kafka.metrics.stats import Avg, Count, Max, Min, Rate, Total

random.seed(9)
STATS = {
    "rate": Rate,
    "countRate": lambda: Rate(sampled_stat=Count()),
    "avg": Avg,
    "max": Max,
    "min": Min,
    "total": Total,
}


def look(config, records, at):
    seen = {}
    for name, make in STATS.items():
        stat = make()
        for when, value in records:
            stat.record(config, value, when)
        try:
            seen[name] = stat.measure(config, at)
        except ZeroDivisionError:  # one window, which has just begun
            seen[name] = None
        if name in ("max", "min") and abs(seen[name]) > 1e18:  # nothing was recorded
            seen[name] = None
    return seen


def scenario():
    samples, window = random.choice([1, 2, 2, 3, 5]), random.choice([500, 1000, 30000])
    config = MetricConfig(samples=samples, time_window_ms=window)
    now, records = random.randrange(1000), []
    for _ in range(random.randrange(25)):
        now += int(random.choice([0, 0.001, 0.1, 0.3, 1, 1, 2.5, 7]) * window * random.choice([1, 1, random.random()]))
        records.append([now, random.choice([0, 1, 7, random.randrange(100000)])])
    at = now + 1 + int(random.choice([0, 0.2, 0.999, 1, 1.5, 3, 9]) * window)
    return {"samples": samples, "window": window, "records": records, "at": at, **look(config, records, at)}


for _ in range(300):
    print(json.dumps(scenario()))
