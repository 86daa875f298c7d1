"""What ONNX Runtime makes of a batch, one batch of the file's own size at a time.

batch_oracle.py make FOLDER COUNT   random graphs with batches of 1, of 2 and symbolic ones: FOLDER/random_SEED.onnx
batch_oracle.py check FOLDER        FOLDER/NAME.npz holds inputs as in/INPUT and what tandem computes from them in batches of
                                    N samples as outN/OUTPUT; the model is FOLDER/NAME.onnx, or the path in FOLDER/NAME.path

Exit code 3: the packages are missing.
"""
import pathlib
import sys

try:
    import numpy
    import onnx
    import onnx.helper as helper
    import onnx.inliner
    import onnx.numpy_helper
    import onnxruntime
except ImportError as missing:
    print(missing)
    sys.exit(3)

TOLERANCE = 1e-5  # of the largest output, or of 1 where that is smaller


class RandomGraph:
    """A value [batch, 6, 8] is taken through random steps and ends as [batch, ...]. Each of its axes is a list of factors,
    one of which is "b" for the batch."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.batch = (1, 2, None)[seed % 3]  # None: symbolic
        self.axes = [["b"], [6], [8]]
        self.nodes, self.weights, self.value = [], [], "x"
        for _ in range(int(self.random.integers(3, 9))):
            steps = [self.linear, self.activation, self.transpose, self.merge, self.separate, self.softmax, self.token, self.constant,
                     self.normalize, self.attention, self.heads_apart, self.unsqueeze]
            steps[int(self.random.integers(len(steps)))]()
        self.finish()

    def name(self):
        return f"v{len(self.nodes)}_{len(self.weights)}"

    def node(self, op, inputs, **attributes):
        out = self.name()
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"{op}_{len(self.nodes)}", **attributes))
        return out

    def weight(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(values, name))
        return name

    def noise(self, *shape):
        return self.weight((self.random.standard_normal(shape) * 0.5).astype(numpy.float32))

    def apply(self, op, *more, **attributes):
        self.value = self.node(op, [self.value, *more], **attributes)

    def size(self, axis):
        return int(numpy.prod([self.batch or 1 if f == "b" else f for f in axis], dtype=int))

    def batch_axis(self):
        return next(i for i, axis in enumerate(self.axes) if "b" in axis)

    def plain(self, i):
        return "b" not in self.axes[i]

    def reshape(self, axes):
        shape = [self.size(axis) for axis in axes]
        free = [i for i, axis in enumerate(axes) if "b" in axis]
        if self.batch is None:
            shape[free[0]] = -1
        elif self.random.random() < 0.3:
            shape[int(self.random.integers(len(shape)))] = -1
        self.axes = [list(axis) for axis in axes]
        self.apply("Reshape", self.weight(numpy.array(shape, numpy.int64)))

    def permute(self, perm):
        self.axes = [self.axes[i] for i in perm]
        self.apply("Transpose", perm=[int(i) for i in perm])

    def linear(self):
        if self.plain(-1):
            columns = int(self.random.integers(2, 9))
            self.apply("MatMul", self.noise(self.size(self.axes[-1]), columns))
            self.axes[-1] = [columns]

    def activation(self):
        self.apply(str(self.random.choice(["Relu", "Tanh", "Sigmoid"])))

    def transpose(self):
        self.permute(self.random.permutation(len(self.axes)))

    def merge(self):
        if len(self.axes) > 2:
            i = int(self.random.integers(len(self.axes) - 1))
            self.reshape(self.axes[:i] + [self.axes[i] + self.axes[i + 1]] + self.axes[i + 2:])

    def separate(self):
        for i, axis in enumerate(self.axes):
            if len(axis) > 1 and len(self.axes) < 5:
                return self.reshape(self.axes[:i] + [axis[:1], axis[1:]] + self.axes[i + 1:])

    def softmax(self):
        i = int(self.random.integers(len(self.axes)))
        if self.plain(i):
            self.apply("Softmax", axis=i)

    def repeated(self, axes):
        """A constant of these axes that is the same for every sample of the file's batch."""
        values = self.random.standard_normal([1 if f == "b" else f for axis in axes for f in axis]).astype(numpy.float32)
        values = numpy.broadcast_to(values, [self.batch if f == "b" else f for axis in axes for f in axis])
        return self.weight(values.reshape([self.size(axis) for axis in axes]).copy())

    def token(self):
        i = int(self.random.integers(len(self.axes)))
        if self.batch and self.plain(i) and len(self.axes[i]) == 1:
            axes = [list(axis) for axis in self.axes]
            axes[i] = [1]
            self.value = self.node("Concat", [self.repeated(axes), self.value], axis=i)
            self.axes[i] = [self.axes[i][0] + 1]

    def constant(self):
        if self.batch == 2 and any("b" in axis and len(axis) > 1 for axis in self.axes):
            return  # a weight that is held twice, in pieces: refused
        if self.batch:
            self.apply(str(self.random.choice(["Add", "Mul"])), self.repeated(self.axes))
        elif self.plain(-1):
            self.apply("Add", self.noise(self.size(self.axes[-1])))

    def normalize(self):
        if self.plain(-1):
            n = self.size(self.axes[-1])
            self.apply("LayerNormalization", self.noise(n), self.noise(n), axis=-1)

    def unsqueeze(self):
        if len(self.axes) < 5:
            i = int(self.random.integers(len(self.axes) + 1))
            self.apply("Unsqueeze", self.weight(numpy.array([i], numpy.int64)))
            self.axes.insert(i, [1])

    def attention(self):
        """As PyTorch's: sequence first, heads beside the batch."""
        if len(self.axes) != 3 or not all(len(axis) == 1 for axis in self.axes) or self.batch_axis() == 2:
            return
        if self.batch_axis() == 0:
            self.permute([1, 0, 2])
        (length,), _, (width,) = self.axes
        heads, depth = 2, 4
        source, parts = (self.value, self.axes), []
        for _ in range(3):
            self.value, self.axes = source[0], [list(axis) for axis in source[1]]
            self.apply("MatMul", self.noise(width, heads * depth))
            self.reshape([[length], ["b", heads], [depth]])
            self.permute([1, 0, 2])
            parts.append(self.value)
        scores = self.node("MatMul", [parts[0], self.node("Transpose", [parts[1]], perm=[0, 2, 1])])
        self.value = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), parts[2]])
        self.permute([1, 0, 2])
        if self.random.random() < 0.5:  # through a matrix of all rows
            self.reshape([[length, "b"], [heads * depth]])
            self.apply("Gemm", self.noise(heads * depth, 8), self.noise(8))
            self.reshape([[length], ["b"], [8]])
        else:
            self.reshape([[length], ["b"], [heads, depth]])
            self.axes[2] = [8]

    def heads_apart(self):
        """As sequence models have it: [batch, heads, length, depth]."""
        if len(self.axes) == 3 and self.axes[0] == ["b"] and len(self.axes[1]) == 1 and self.axes[2] == [8]:
            (length,) = self.axes[1]
            self.reshape([["b"], [length], [2], [4]])
            self.permute([0, 2, 1, 3])
            turned = self.node("Transpose", [self.value], perm=[0, 1, 3, 2])
            scores = self.node("Softmax", [self.node("MatMul", [self.value, turned])], axis=-1)
            self.value = self.node("MatMul", [scores, self.value])
            self.permute([0, 2, 1, 3])
            self.reshape([["b"], [length], [8]])

    def finish(self):
        while any(len(axis) > 1 for axis in self.axes):
            i = next(i for i, axis in enumerate(self.axes) if len(axis) > 1)
            self.reshape(self.axes[:i] + [self.axes[i][:1], self.axes[i][1:]] + self.axes[i + 1:])
        b = self.batch_axis()
        if b > 0:
            self.permute([b, *(i for i in range(len(self.axes)) if i != b)])
        self.nodes.append(helper.make_node("Identity", [self.value], ["y"]))

    def model(self, name):
        shape = [self.batch or "N", 6, 8]
        output = ([self.batch] if self.batch else ["N"]) + [self.size(axis) for axis in self.axes[1:]]
        graph = helper.make_graph(self.nodes, name, [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, output)], self.weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def make(folder, count):
    for seed in range(int(count)):
        model = RandomGraph(seed).model(f"random_{seed}")
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, str(pathlib.Path(folder) / f"random_{seed}.onnx"))


def check(folder):
    failures = 0
    for values in sorted(pathlib.Path(folder).glob("*.npz")):
        path = values.with_suffix(".path")
        model = onnx.load(path.read_text() if path.exists() else str(values.with_suffix(".onnx")))
        if model.functions:  # some exporters' functions have bodies whose types ONNX Runtime cannot infer
            model = onnx.inliner.inline_local_functions(model)
        given = numpy.load(values)
        feeds = {key[3:]: given[key] for key in given.files if key.startswith("in/")}
        dims = next(i for i in model.graph.input if i.name in feeds).type.tensor_type.shape.dim
        batch = dims[0].dim_value if dims[0].dim_value > 0 else 1
        known = {o.name for o in model.graph.output}
        wanted = sorted({key.split("/", 1)[1] for key in given.files if key.startswith("out")})
        # A model may hand out only labels made from the scores; tandem leaves those to other readers and gives the scores.
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted if name not in known)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        samples = len(next(iter(feeds.values())))
        parts = [session.run(wanted, {k: v[i:i + batch] for k, v in feeds.items()}) for i in range(0, samples, batch)]
        for place, name in enumerate(wanted):
            want = numpy.concatenate([part[place] for part in parts])
            for key in (k for k in given.files if k.startswith("out") and k.split("/", 1)[1] == name):
                got = given[key]
                error = numpy.abs(got - want).max() / max(1.0, numpy.abs(want).max()) if got.shape == want.shape else numpy.inf
                if not error <= TOLERANCE:
                    failures += 1
                    print(f"{values.stem}: {key} {got.shape} differs from ONNX Runtime's {want.shape} by {error:.1e}")
    sys.exit(failures > 0)


{"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
