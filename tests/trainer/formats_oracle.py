"""Writes data files as Python's own writers do, into the folder given, and expected.tsv: a data set's name and what it holds, a line
each, as tests/trainer/data_reading.h shows it. Exit code 3 where a package is missing."""
import csv, decimal, gzip, io, json, os, random, struct, sys, tarfile

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as e:
    print(e)
    sys.exit(3)

from records import masked, message, varint

folder = sys.argv[1]
expected = []
rng = random.Random(7)


def path(name):
    return os.path.join(folder, name)


def text(v):
    v = float(v)
    return str(int(v)) if v == int(v) else repr(v)


def field(head, rows):
    return head + ":" + ",".join("".join(" " + text(v) for v in row) for row in reversed(rows))


def expect(spec, *fields):
    expected.append(spec.replace("TMP", folder) + "\t" + "; ".join(fields))


# Parquet: 2000 rows in groups of 700 and small pages.
n = 2000
names = ["ant", "bee", "cat", "a longer name of a class"]
columns = {
    "f4": pa.array([i % 97 / 4 for i in range(n)], pa.float32()),
    "f8": pa.array([i * 0.5 for i in range(n)], pa.float64()),
    "f2": pa.array(np.array([i % 50 / 2 for i in range(n)], np.float16)),
    "i1": pa.array([i % 200 - 100 for i in range(n)], pa.int8()),
    "u2": pa.array([i * 31 % 65536 for i in range(n)], pa.uint16()),
    "i4": pa.array([(i * 7919) % 100003 - 50000 for i in range(n)], pa.int32()),
    "u4": pa.array([2**24 - 1 - i for i in range(n)], pa.uint32()),
    "i8": pa.array([i * i - 999_999 for i in range(n)], pa.int64()),
    "b": pa.array([i % 3 == 0 for i in range(n)]),
    "l": pa.array([[i, i + 0.5] for i in range(n)], pa.list_(pa.float32())),
    "ll": pa.array([[[i % 5, 1], [2, i % 7]] for i in range(n)], pa.list_(pa.list_(pa.int64()))),
    "fl": pa.array([[i % 11, 3] for i in range(n)], pa.list_(pa.int32(), 2)),
    "name": pa.array([names[i * i % 4 if i < 1500 else 2] for i in range(n)]),
    "id": pa.array(["row %05d" % i for i in range(n)]),
    "image": pa.array([{"bytes": b"\xff\xd8\xff" + bytes(i % 40), "path": None} for i in range(n)]),
    "holes": pa.array([None if i % 5 == 1 else i for i in range(n)], pa.float64()),
}
table = pa.table(columns)
order = sorted(set(columns["name"].to_pylist()))
numbers = ["f4", "f8", "f2", "i1", "u2", "i4", "u4", "i8", "b"]
flat = [[columns[c][i].as_py() for c in numbers] + columns["l"][i].as_py() + sum(columns["ll"][i].as_py(), []) + columns["fl"][i].as_py() for i in range(n)]
flat = [[np.float32(v) for v in row] for row in flat]
labels = [[order.index(v)] for v in columns["name"].to_pylist()]
width = len(flat[0])
chosen = ",x=" + ",".join(numbers + ["l", "ll", "fl"]) + ",y=name"
settings = {
    "plain": dict(),
    "none": dict(compression="none", use_dictionary=False),
    "v2": dict(data_page_version="2.0", compression="zstd"),
    "gzip": dict(compression="gzip", data_page_version="2.0", use_dictionary=False),
    "delta": dict(compression="snappy", use_dictionary=False, column_encoding={
        "i4": "DELTA_BINARY_PACKED", "i8": "DELTA_BINARY_PACKED", "name": "DELTA_LENGTH_BYTE_ARRAY", "id": "DELTA_BYTE_ARRAY", "f4": "BYTE_STREAM_SPLIT", "f8": "BYTE_STREAM_SPLIT"}),
    "delta2": dict(compression="none", data_page_version="2.0", use_dictionary=False, column_encoding={"u4": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "b": "RLE"}),
}
for name, how in settings.items():
    pq.write_table(table, path(name + ".parquet"), row_group_size=700, data_page_size=2000, **how)
    expect("parquet:TMP/%s.parquet%s" % (name, chosen), field("x float32[%d]" % width, flat), field("label y int64[]", labels))
pq.write_table(table.slice(0, 1000), path("shard-0.parquet"))
pq.write_table(table.slice(1000), path("shard-1.parquet"))
expect("parquet:TMP/shard-*.parquet,y=name", field("label y int64[]", labels),
       "x image:" + ",".join(" %d bytes" % (3 + i % 40) for i in reversed(range(n))))
kept = [i for i in range(n) if i % 5 != 1]
expect("parquet:TMP/plain.parquet,x=holes,y=b,missing=drop", field("x float32[]", [[i] for i in kept]), field("label y int64[]", [[i % 3 == 0] for i in kept]))

# Decimals in each of the forms they are stored in, times of 96 bits, and LZ4.
cents = [decimal.Decimal(i * 7919 % 100003 - 50000) / 100 for i in range(n)]
exact = pa.table({"d9": pa.array(cents, pa.decimal128(9, 2)), "d18": pa.array(cents, pa.decimal128(18, 4)), "d38": pa.array(cents, pa.decimal128(38, 10)), "d70": pa.array(cents, pa.decimal256(70, 3)), "y": columns["i4"]})
forms = [[float(np.float32(float(c)))] * 4 for c in cents]
for name, how in {"fixed": dict(), "whole": dict(store_decimal_as_integer=True, compression="lz4"), "delta": dict(use_dictionary=False, compression="lz4", data_page_version="2.0")}.items():
    pq.write_table(exact, path("decimals-%s.parquet" % name), data_page_size=2000, **how)
    expect("parquet:TMP/decimals-%s.parquet,y=y" % name, field("label y int64[]", [[v] for v in columns["i4"].to_pylist()]), field("x float32[4]", forms))
times = np.array([i * 86_400_000_000_000 * 9 + i * 1000 for i in range(-20, 20)])
pq.write_table(pa.table({"t": pa.array(times, pa.timestamp("ns")), "y": pa.array([i % 2 for i in range(40)])}), path("times.parquet"), use_deprecated_int96_timestamps=True)
expect("parquet:TMP/times.parquet,y=y", field("label y int64[]", [[i % 2] for i in range(40)]), field("x float32[]", [[np.float32(v)] for v in times]))

# numpy
x = np.arange(24, dtype=np.float32).reshape(6, 4) / 4
y = np.array([2, 0, 1, 1, 2, 0])
w = np.array([1, 0.5, 2, 1, 1, 1])
np.savez(path("a.npz"), x=x, y=y, sample_weight=w)
np.savez_compressed(path("c.npz"), x=x, y=y, sample_weight=w)
weighted = [field("x float32[4]", x), field("label y int64[]", y[:, None]), field("weight sample_weight float32[]", w[:, None])]
expect("npz:TMP/a.npz", *weighted)
expect("npz:TMP/c.npz", *weighted)
np.save(path("x.npy"), x)
np.save(path("xf.npy"), np.asfortranarray(x))
np.save(path("xh.npy"), x.astype(np.float16))
np.save(path("y.npy"), y)
for stem in ("x", "xf", "xh"):
    expect("npy:TMP/%s.npy,TMP/y.npy" % stem, field("x float32[4]", x), field("label y int64[]", y[:, None]))

# CSV, with all that its writer quotes
words = ['a "quoted" one', "with, commas", "two\nlines", "caf\u00e9"]
rows = [[i / 8, -i, words[i * 3 % 4]] for i in range(50)]
for name, opener in (("a.csv", open), ("a.csv.gz", gzip.open)):
    with opener(path(name), "wt", newline="", encoding="utf-8-sig") as f:
        writer = csv.writer(f)
        writer.writerow(["first, of two", "second", "class"])
        writer.writerows(rows)
    code = sorted(words, key=lambda s: s.encode())
    expect("csv:TMP/" + name, field("label y int64[]", [[code.index(r[2])] for r in rows]), field("x float32[2]", [r[:2] for r in rows]))

# JSON lines
with open(path("a.jsonl"), "w") as f:
    for r in rows:
        f.write(json.dumps({"x": r[:2], "label": r[2]}) + "\n")
expect("jsonl:TMP/a.jsonl", field("label y int64[]", [[code.index(r[2])] for r in rows]), field("x float32[2]", [r[:2] for r in rows]))

# tar shards of each format that tarfile writes, with names beyond a header's 100 bytes
for name, how in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("ustar", tarfile.USTAR_FORMAT)):
    for suffix in ("", ".gz"):
        with tarfile.open(path(name + ".tar" + suffix), "w:gz" if suffix else "w", format=how) as tar:
            for i in range(20):
                key = "d" * 90 + "/%s%06d" % ("k" * 40, i)
                array = io.BytesIO()
                np.save(array, np.float32([i, i / 4]))
                for ending, body in (("png", b"\x89PNG\r\n\x1a\n" + bytes(i)), ("cls", b"%d" % (i % 3)), ("v.npy", array.getvalue()), ("json", json.dumps({"w": i + 0.25}).encode())):
                    info = tarfile.TarInfo("%s.%s" % (key, ending))
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))
        expect("webdataset:TMP/%s.tar%s,weight=w" % (name, suffix), field("weight sample_weight float32[]", [[i + 0.25] for i in range(20)]),
               field("label y int64[]", [[i % 3] for i in range(20)]), "x image:" + ",".join(" %d bytes" % (8 + i) for i in reversed(range(20))))
        expect("webdataset:TMP/%s.tar%s,x=v.npy,y=cls" % (name, suffix), field("x float32[2]", [[i, i / 4] for i in range(20)]), field("label y int64[]", [[i % 3] for i in range(20)]))

# TFRecords
for name, opener in (("a.tfrecord", open), ("a.tfrecord.gz", gzip.open)):
    with opener(path(name), "wb") as f:
        for i in range(30):
            features = {"x": message(2, message(1, struct.pack("<3f", i, i / 2, -1))), "label": message(3, message(1, varint(i % 4))), "n": message(3, message(1, varint(-i) + varint(300)))}
            body = message(1, b"".join(message(1, message(1, k.encode()) + message(2, v)) for k, v in features.items()))
            f.write(struct.pack("<Q", len(body)) + masked(struct.pack("<Q", len(body))) + body + masked(body))
    expect("tfrecord:TMP/%s,x=x,n,y=label" % name, field("x float32[5]", [[i, i / 2, -1, -i, 300] for i in range(30)]), field("label y int64[]", [[i % 4] for i in range(30)]))

with open(path("expected.tsv"), "w") as f:
    f.write("\n".join(expected) + "\n")
