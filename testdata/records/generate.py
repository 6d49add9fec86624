"""Writes the golden batches of this directory with kafka-python's record builders.

    pip install kafka-python==3.0.12 lz4==4.4.5 python-snappy==0.7.3 zstandard==0.25.0 xxhash
    python generate.py

The records follow a rule that protocol/golden_test.go knows too.
"""

import gzip
import struct

import lz4.frame
import zstandard
from kafka import codec
from kafka.record import default_records, legacy_records
from kafka.record.memory_records import MemoryRecordsBuilder

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ["none", "gzip", "snappy", "lz4", "zstd"]


def record(i, scale):
    key = None if i % 7 == 3 else b"key-%d" % i
    value = None if i % 5 == 4 else b"" if i % 5 == 3 else b"value-%d " % i * (1 + i * scale)
    headers = [("h%d" % n, [None, b"", b"\xc3\x28", b"plain"][(i + n) % 4]) for n in range(i % 4)]
    if i == 6:
        headers = [("", b"no key"), ("\u952e", b"chinese"), ("\u952e", b"again")]
    return key, value, headers


def build(magic, compression, count=25, base=100, scale=0):
    """One batch with absolute offsets, as a broker would hand it out."""
    builder = MemoryRecordsBuilder(magic, compression, batch_size=64 << 20, offset=base if magic == 0 else 0)
    for i in range(count):
        key, value, headers = record(i, scale)
        builder.append(1600000000000 + 13 * i, key, value, headers if magic == 2 else [])
    builder.close()
    raw = bytearray(builder.buffer())
    if magic == 2:
        raw[0:8] = struct.pack(">q", base)
    elif compression != NONE:
        raw[0:8] = struct.pack(">q", base + count - 1)
    elif magic == 1:
        pos = 0
        for i in range(count):
            raw[pos:pos + 8] = struct.pack(">q", base + i)
            pos += 12 + struct.unpack(">i", raw[pos + 8:pos + 12])[0]
    return raw


def write(name, raw):
    with open(name + ".bin", "wb") as f:
        f.write(raw)


def with_encoder(name, function, magic, compression, **kwargs):
    """A batch whose payload is compressed by function."""
    module = default_records if magic == 2 else legacy_records
    original = getattr(module, name)
    setattr(module, name, function)
    try:
        return build(magic, compression, **kwargs)
    finally:
        setattr(module, name, original)


def lz4_frame(**options):
    def encode(payload):
        return lz4.frame.compress(bytes(payload), **options)
    return encode


def halves(encode):
    def both(payload):
        payload = bytes(payload)
        return encode(payload[:len(payload) // 2]) + encode(payload[len(payload) // 2:])
    return both


def zstd_stream(payload):
    """Without content size, as a stream is written."""
    c = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return c.compress(bytes(payload)) + c.flush()


def xerial_little_endian(payload):
    out = bytearray(codec.snappy_encode(payload))
    out[8:16] = struct.pack("<ii", 1, 1)
    return bytes(out)


for magic in (0, 1, 2):
    for compression in (NONE, GZIP, SNAPPY, LZ4) + ((ZSTD,) if magic == 2 else ()):
        write("v%d-%s" % (magic, NAMES[compression]), build(magic, compression))

raw = build(1, GZIP, base=0)
raw[0:8] = struct.pack(">q", 0)
write("v1-gzip-offset-0", raw)

BIG = dict(count=60, scale=10)
for magic in (1, 2):
    for name, options in {
        "64k-linked": dict(block_size=4, block_linked=True),
        "64k-independent-checksums": dict(block_size=4, block_linked=False, block_checksum=True, content_checksum=True),
        "4m-checksum": dict(block_size=7, content_checksum=True),
        "no-size": dict(block_size=4, store_size=False),
    }.items():
        write("v%d-lz4-%s" % (magic, name), with_encoder("lz4_encode", lz4_frame(**options), magic, LZ4, **BIG))
    write("v%d-gzip-members" % magic, with_encoder("gzip_encode", halves(gzip.compress), magic, GZIP))
    write("v%d-snappy-raw" % magic, with_encoder(
        "snappy_encode", lambda p: codec.snappy_encode(p, xerial_compatible=False), magic, SNAPPY))
    write("v%d-snappy-little-endian" % magic, with_encoder("snappy_encode", xerial_little_endian, magic, SNAPPY))
    write("v%d-snappy-chunks" % magic, build(magic, SNAPPY, **BIG))
write("v2-zstd-stream", with_encoder("zstd_encode", zstd_stream, 2, ZSTD, **BIG))
write("v2-zstd-frames", with_encoder("zstd_encode", halves(zstd_stream), 2, ZSTD, **BIG))
