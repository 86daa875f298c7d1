"""ctypes over libtandem_runtime.so: a packed model that runs steps on the caller's memory."""
import ctypes
import os
import pathlib
import subprocess

import numpy

# A plan's device has as many threads as the process has cores: one. Before libraries start, which count them, too.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ["OMP_NUM_THREADS"] = "1"

TYPES = {1: numpy.float32, 2: numpy.uint8, 6: numpy.int32, 7: numpy.int64}  # by ONNX's numbers


class Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("bytes", ctypes.c_int64)]


class Runtime:
    def __init__(self, library, folder):
        self.library = ctypes.CDLL(str(library))
        self.library.tandem_runtime_message.restype = ctypes.c_char_p
        self.run = ctypes.c_void_p()
        folder = pathlib.Path(folder)
        self.check(self.library.tandem_runtime_open(os.fsencode(folder / "model.plan"), os.fsencode(folder / "weights.safetensors"),
                                                    ctypes.byref(self.run)))
        self.inputs, self.outputs = self.values("input"), self.values("output")
        self.loss = ctypes.c_double()

    def check(self, code):
        if code:
            raise RuntimeError(self.library.tandem_runtime_message().decode())

    def values(self, kind):
        count = getattr(self.library, f"tandem_runtime_{kind}_count")(self.run)
        list_ = []
        for i in range(count):
            v = Value()
            self.check(getattr(self.library, f"tandem_runtime_{kind}")(self.run, i, ctypes.byref(v)))
            list_.append((v.name.decode(), tuple(v.dims[:v.rank]), TYPES[v.dtype]))
        return list_

    def bind(self, feeds):
        """Steps read these arrays, in the order of inputs. Returns the outputs' arrays."""
        self.feeds = [numpy.ascontiguousarray(f, t).reshape(shape) for f, (_, shape, t) in zip(feeds, self.inputs)]
        self.results = [numpy.empty(shape, t) for _, shape, t in self.outputs]
        self.given = (ctypes.c_void_p * len(self.feeds))(*[f.ctypes.data for f in self.feeds])
        self.got = (ctypes.c_void_p * len(self.results))(*[r.ctypes.data for r in self.results])
        return self.results

    def step(self):
        self.check(self.library.tandem_runtime_step(self.run, self.given, self.got, None, ctypes.byref(self.loss)))

    def close(self):
        self.library.tandem_runtime_close(self.run)


def pack(tandem, model, folder, *options):
    subprocess.run([str(tandem), "pack", str(model), "--output", str(folder), "--overwrite", "--quiet", *options], check=True)
