"""Node tests of operators that ONNX's own suite does not have: what ONNX Runtime gives for them.

onnxruntime_cases.py FOLDER: writes a folder a case, as ONNX's node tests are (model.onnx, test_data_set_0). Exit 77: a package is missing.
"""
import pathlib
import shutil
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(missing)
    sys.exit(77)

random = np.random.default_rng(1)
MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"


def f(*shape, low=-1.0, high=1.0):
    return random.uniform(low, high, shape).astype(np.float32)


def i32(values):
    return np.array(values, np.int32)


def i64(values):
    return np.array(values, np.int64)


def tensor_bytes(array):
    return numpy_helper.from_array(np.asarray(array, order="C")).SerializeToString()


def save(folder, name, model, inputs, outputs):
    where = pathlib.Path(folder) / name / "test_data_set_0"
    where.mkdir(parents=True)
    onnx.save(model, where.parent / "model.onnx")
    for i, array in enumerate(inputs):
        (where / f"input_{i}.pb").write_bytes(tensor_bytes(array))
    for i, written in enumerate(outputs):
        (where / f"output_{i}.pb").write_bytes(written)


class Known:
    """An operand that stands in the file."""

    def __init__(self, array):
        self.array = array


def case(folder, name, domain, op, operands, outputs=1, opset=17, instead=None, **attributes):
    """`outputs`: how many, or for each whether it is given. `instead`: operands that say the same in a form that ONNX Runtime computes."""
    if instead is not None:
        case(folder, name, domain, op, instead, outputs, opset, **attributes)
        where = pathlib.Path(folder) / name
        expected = [(where / "test_data_set_0" / f"output_{i}.pb").read_bytes() for i in range(outputs)]
        shutil.rmtree(where)
    inputs, initializers, names = [], [], []
    for i, operand in enumerate(operands):
        if operand is None:
            names.append("")
            continue
        names.append(f"x{i}")
        if isinstance(operand, Known):
            initializers.append(numpy_helper.from_array(operand.array, names[-1]))
        else:
            inputs.append((names[-1], operand))
    given = [True] * outputs if isinstance(outputs, int) else outputs
    results = [f"y{i}" if g else "" for i, g in enumerate(given)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    declared = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs]
    wanted = [r for r in results if r]
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 3 if domain == ML else 1)] if domain else [])

    if instead is not None:
        save(folder, name, helper.make_model(helper.make_graph([node], name, declared, [onnx.ValueInfoProto(name=w) for w in wanted], initializers), opset_imports=imports, ir_version=8), [a for _, a in inputs], expected)
        return

    def model(types):
        graph = helper.make_graph([node], name, declared, types, initializers)
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    untyped = model([onnx.ValueInfoProto(name=w) for w in wanted])
    session = onnxruntime.InferenceSession(untyped.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = session.run(wanted, dict(inputs))
    types = [helper.make_tensor_value_info(w, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for w, v in zip(wanted, values)]
    save(folder, name, model(types), [a for _, a in inputs], [tensor_bytes(v) for v in values])


def fused(folder):
    def one(name, op, operands, **more):
        case(folder, name, MICROSOFT, op, operands, **more)

    one("gelu", "Gelu", [f(3, 5, low=-3, high=3)])
    one("quick_gelu", "QuickGelu", [f(3, 5)])
    one("quick_gelu_alpha", "QuickGelu", [f(3, 5)], alpha=0.7)
    one("bias_gelu", "BiasGelu", [f(2, 3, 5), f(5)])
    one("fast_gelu", "FastGelu", [f(2, 3, 5)])
    one("fast_gelu_bias", "FastGelu", [f(2, 3, 5), f(5)])
    one("fused_matmul", "FusedMatMul", [f(2, 3, 4), f(2, 4, 5)], alpha=0.5)
    one("fused_matmul_transposed", "FusedMatMul", [f(2, 4, 3), f(5, 4)], transA=1, transB=1)
    one("fused_matmul_stack", "FusedMatMul", [f(3, 2, 4), f(4, 2, 5)], transBatchA=1, transBatchB=1)
    one("fused_matmul_stack_of_four", "FusedMatMul", [f(3, 2, 2, 4), f(2, 2, 4, 5)], transBatchA=1)
    one("transpose_matmul", "TransposeMatMul", [f(4, 3), f(4, 5)], transA=1)
    one("fused_gemm_relu", "FusedGemm", [f(3, 4), f(4, 5), f(5)], activation="Relu")
    one("fused_gemm_leaky", "FusedGemm", [f(3, 4), f(5, 4), f(5)], transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.2)
    one("fused_conv_relu", "FusedConv", [f(2, 3, 6, 6), f(4, 3, 3, 3), f(4)], activation="Relu", pads=[1, 1, 1, 1])
    one("fused_conv_leaky", "FusedConv", [f(1, 2, 5, 5), f(4, 2, 3, 3)], activation="LeakyRelu", activation_params=[0.1])
    one("fused_conv_clip_sum", "FusedConv", [f(1, 2, 5, 5), f(4, 2, 3, 3), f(4), f(1, 4, 3, 3)], activation="Clip", activation_params=[-0.2, 0.3])
    one("layer_normalization_skip", "SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8)], epsilon=1e-5)
    one("layer_normalization_skip_all", "SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], outputs=[True, False, False, True], epsilon=1e-5)
    one("layer_normalization_skip_broadcast", "SkipLayerNormalization", [f(2, 3, 8), f(1, 3, 8), f(8), None, f(8)], epsilon=1e-5)
    one("layer_normalization_simplified_skip", "SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)], outputs=[True, False, False, True], epsilon=1e-5)
    one("layer_normalization_simplified_skip_bias", "SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8)], epsilon=1e-5)
    case(folder, "layer_normalization_simplified", "", "SimplifiedLayerNormalization", [f(2, 3, 8), f(8)], epsilon=1e-5)
    case(folder, "layer_normalization_of_opset_12", "", "LayerNormalization", [f(2, 3, 8), f(8), f(8)], opset=12)
    ids = i32([[1, 4, 2], [0, 3, 3]])
    tables = [f(6, 8), f(5, 8)]
    one("embed", "EmbedLayerNormalization", [ids, None, *tables, None, f(8), f(8)], epsilon=1e-5, outputs=2)
    one("embed_all", "EmbedLayerNormalization", [ids, i32([[0, 0, 1], [1, 0, 1]]), *tables, f(2, 8), f(8), f(8), i32([[1, 1, 0], [1, 1, 1]])], outputs=3, epsilon=1e-5)
    one("embed_positions", "EmbedLayerNormalization", [ids, None, *tables, None, f(8), f(8), None, i32([[2, 0, 1], [4, 4, 3]])], epsilon=1e-5, outputs=2)
    for bits, name in ((4, ""), (8, "_of_eight_bits"), (2, "_of_two_bits")):
        k, n, block = 40, 3, 16
        blocks, blob = 3, 16 * bits // 8
        packed = Known(random.integers(0, 256, (n, blocks, blob), np.uint8))
        scales = Known(f(n, blocks, low=0.1))
        zeros = Known(random.integers(0, 256, (n, (blocks * bits + 7) // 8), np.uint8))
        sizes = {"K": k, "N": n, "bits": bits, "block_size": block}
        one("matmul_nbits" + name, "MatMulNBits", [f(2, 4, k), packed, scales], **sizes)
        one("matmul_nbits_zeros" + name, "MatMulNBits", [f(4, k), packed, scales, zeros], **sizes)
    one("matmul_nbits_bias", "MatMulNBits", [f(2, 4, k), Known(random.integers(0, 256, (n, blocks, 8), np.uint8)), scales, None, None, f(n)], K=k, N=n, bits=4, block_size=block)
    one("quantize_int16", "QuantizeLinear", [f(3, 5), np.array(0.01, np.float32), np.array(3, np.int16)])
    one("dequantize_uint16", "DequantizeLinear", [random.integers(0, 999, (3, 5)).astype(np.uint16), f(5, low=0.1), random.integers(0, 99, 5).astype(np.uint16)], axis=1)


def attention(folder):
    def one(name, op, operands, **more):
        case(folder, name, MICROSOFT, op, operands, **more)

    b, s, h, d = 2, 5, 2, 4
    packed = [f(b, s, 6), f(6, 3 * h * d), f(3 * h * d)]
    one("attention", "Attention", packed, num_heads=h)
    one("attention_causal", "Attention", packed, num_heads=h, unidirectional=1)
    one("attention_scale", "Attention", packed, num_heads=h, scale=0.3)
    one("attention_sizes", "Attention", [f(b, s, 6), f(6, 8 + 8 + 12), f(28)], num_heads=h, qkv_hidden_sizes=[8, 8, 12])
    one("attention_lengths", "Attention", [*packed, i32([3, 5])], num_heads=h)
    one("attention_ends_and_starts", "Attention", [*packed, i32([4, 5, 1, 0])], num_heads=h)
    one("attention_mask", "Attention", [*packed, i32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])], num_heads=h)
    one("attention_mask_of_pairs", "Attention", [*packed, i32(random.integers(0, 2, (b, s, s)) | np.eye(s, dtype=int))], num_heads=h, mask_filter_value=-500.0)
    one("attention_bias", "Attention", [*packed, None, None, f(1, h, s, s)], num_heads=h)
    one("attention_past", "Attention", [*packed, None, f(2, b, h, 3, d)], num_heads=h, outputs=2, unidirectional=1)
    one("attention_past_mask", "Attention", [*packed, i32([[1] * 8, [0, 0] + [1] * 6]), f(2, b, h, 3, d)], num_heads=h, outputs=2)
    flat = [f(b, s, h * d), f(b, 3, h * d), f(b, 3, h * 6)]
    one("multi_head", "MultiHeadAttention", flat, num_heads=h)
    one("multi_head_bias", "MultiHeadAttention", [*flat, f(2 * h * d + h * 6)], num_heads=h)
    one("multi_head_scale", "MultiHeadAttention", flat, num_heads=h, scale=0.2)
    together = [f(b, s, h, d) for _ in range(3)]
    one("multi_head_packed", "MultiHeadAttention", [np.stack(together, 3)], instead=[t.reshape(b, s, h * d) for t in together], num_heads=h)
    pair = [f(b, 3, h, d) for _ in range(2)]
    one("multi_head_packed_keys", "MultiHeadAttention", [flat[0], np.stack(pair, 3)], instead=[flat[0], *[t.reshape(b, 3, h * d) for t in pair]], num_heads=h)
    one("multi_head_apart", "MultiHeadAttention", [f(b, s, h * d), f(b, h, 3, d), f(b, h, 3, d)], num_heads=h)
    one("multi_head_mask", "MultiHeadAttention", [*flat, None, i32([[1, 0, 1], [1, 1, 1]])], num_heads=h)
    one("multi_head_scores", "MultiHeadAttention", [*flat, None, None, f(b, 1, s, 3)], num_heads=h)
    same = [f(b, s, h * d) for _ in range(3)]
    one("multi_head_causal", "MultiHeadAttention", same, num_heads=h, unidirectional=1)
    one("multi_head_past", "MultiHeadAttention", [*same, None, None, None, f(b, h, 3, d), f(b, h, 3, d)], num_heads=h, outputs=3)
    g, w = 4, 16
    seen = [i32([s - 1, s - 1]), i32(s)]
    group = [f(b, s, g * w), f(b, s, 2 * w), f(b, s, 2 * w), None, None, *seen]
    one("group_query", "GroupQueryAttention", group, num_heads=g, kv_num_heads=2, outputs=3)
    one("group_query_packed", "GroupQueryAttention", [f(b, s, (g + 4) * w), None, None, None, None, *seen], num_heads=g, kv_num_heads=2, outputs=3)
    one("group_query_window", "GroupQueryAttention", group, num_heads=g, kv_num_heads=2, local_window_size=2, outputs=3)
    one("group_query_softcap", "GroupQueryAttention", group, num_heads=g, kv_num_heads=2, softcap=2.0, scale=0.5, outputs=3)
    one("group_query_scores", "GroupQueryAttention", [*group, None, None, None, f(1, g, s, s)], num_heads=g, kv_num_heads=2, outputs=3)
    angles = f(9, w // 2, low=-3, high=3)
    tables = [np.cos(angles), np.sin(angles)]
    for interleaved in (0, 1):
        one(f"group_query_rotary_{interleaved}", "GroupQueryAttention", [*group, *tables], num_heads=g, kv_num_heads=2, do_rotary=1, rotary_interleaved=interleaved, outputs=3)
        places = i64([[0, 1, 2, 3, 4], [3, 4, 5, 6, 8]])
        one(f"rotary_{interleaved}", "RotaryEmbedding", [f(b, s, 2 * w), places, *tables], interleaved=interleaved)
        one(f"rotary_apart_{interleaved}", "RotaryEmbedding", [f(b, 2, s, w), i64([2]), *tables], interleaved=interleaved)
        part = [t[:, : w // 4] for t in tables]
        one(f"rotary_part_{interleaved}", "RotaryEmbedding", [f(b, s, 2 * w), places, *part], interleaved=interleaved, num_heads=2, rotary_embedding_dim=w // 2)


def tables(folder):
    def one(name, op, operands, **more):
        case(folder, name, ML, op, operands, **more)

    x = f(4, 3, low=-3, high=3)
    one("scaler", "Scaler", [x], offset=[1.0, 2.0, -1.0], scale=[0.5, 2.0, 3.0])
    one("scaler_of_one", "Scaler", [x], offset=[1.0], scale=[0.5])
    one("scaler_of_integers", "Scaler", [i64([[1, 2], [3, 4]])], offset=[1.5, 0.0], scale=[0.5, 0.25])
    for norm in ("MAX", "L1", "L2"):
        rows = np.concatenate([np.abs(x), np.zeros((1, 3), np.float32)])
        one("normalizer_" + norm.lower(), "Normalizer", [rows], norm=norm)
    one("normalizer_signed", "Normalizer", [x], norm="L2")
    one("imputer", "Imputer", [np.array([[1, np.nan, 3], [np.nan, 5, 6]], np.float32)], imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
    one("imputer_of_one", "Imputer", [np.array([[1, 0, 3], [0, 5, 6]], np.float32)], imputed_value_floats=[7.0], replaced_value_float=0.0)
    one("imputer_of_integers", "Imputer", [i64([[1, -1], [3, 4]])], imputed_value_int64s=[7, 9], replaced_value_int64=-1)
    one("binarizer", "Binarizer", [x], threshold=0.5)
    one("label_encoder", "LabelEncoder", [i64([[5, 2], [9, 1]])], keys_int64s=[5, 9], values_floats=[0.5, -2.0], default_float=7.0)
    one("label_encoder_to_integers", "LabelEncoder", [np.array([1.5, 2.5, 3.5], np.float32)], keys_floats=[3.5, 1.5], values_int64s=[4, 1 << 40], default_int64=-3)
    one("one_hot", "OneHotEncoder", [i64([[5, 2], [9, 1]])], cats_int64s=[2, 5, 9])
    one("one_hot_of_floats", "OneHotEncoder", [np.array([[5], [4]], np.float32)], cats_int64s=[4, 5])
    one("extractor", "ArrayFeatureExtractor", [f(2, 3, 4), i64([3, 1, 1])])
    one("extractor_of_list", "ArrayFeatureExtractor", [f(4), i64([[3, 1]])])
    one("vectorizer", "FeatureVectorizer", [f(2, 3), f(2, 1)], inputdimensions=[3, 1])
    for post in ("NONE", "LOGISTIC", "SOFTMAX"):
        one("classifier_" + post.lower(), "LinearClassifier", [x], outputs=2, coefficients=list(map(float, f(12))), intercepts=[0.1, 0.2, -0.3, 0.0], classlabels_ints=[3, 0, 7, 8], post_transform=post)
        one("classifier_of_two_" + post.lower(), "LinearClassifier", [x], outputs=2, coefficients=[0.5, -1.0, 2.0], intercepts=[0.25], classlabels_ints=[1, 4], post_transform=post)
    one("classifier_mirrored", "LinearClassifier", [x], outputs=2, coefficients=[-0.5, 1.0, -2.0, 0.5, -1.0, 2.0], intercepts=[-0.25, 0.25], classlabels_ints=[0, 1], post_transform="LOGISTIC")
    one("regressor", "LinearRegressor", [x], coefficients=list(map(float, f(6))), intercepts=[0.5, -1.0], targets=2)
    one("regressor_bare", "LinearRegressor", [x], coefficients=[1.0, 2.0, 3.0])


def forest(of, trees, levels, features, targets, modes=("BRANCH_LEQ",), low=-1.0, tracks=False, whole=False):
    """Trees of all their branches; a leaf counts for one target, and every other one for a second, or for all."""
    a = {n: [] for n in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    leaves = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    inner = 2**levels - 1
    for tree in range(trees):
        for node in range(2 * inner + 1):
            leaf = node >= inner
            values = dict(treeids=tree, nodeids=node, featureids=0 if leaf else int(random.integers(features)), values=0.0 if leaf else round(float(random.uniform(-2, 2)) * 4) / 4)
            values |= dict(modes="LEAF" if leaf else modes[int(random.integers(len(modes)))], truenodeids=0 if leaf else 2 * node + 1, falsenodeids=0 if leaf else 2 * node + 2)
            for name, value in (values | {"missing_value_tracks_true": int(tracks and random.integers(2))}).items():
                a[name].append(value)
            own = targets[node % len(targets)]
            for target in [] if not leaf else targets if whole else {own, targets[0]} if node % 2 else {own}:
                for name, value in dict(treeids=tree, nodeids=node, ids=target, weights=float(random.uniform(low, 1))).items():
                    leaves[name].append(value)
    return {f"nodes_{n}": v for n, v in a.items()} | {f"{of}_{n}": v for n, v in leaves.items()}


def trees(folder):
    def one(name, op, operands, **more):
        case(folder, "trees_" + name, ML, op, operands, **more)

    x = np.round(f(9, 4, low=-3, high=3) * 4) / 4
    missing = np.where(random.uniform(size=x.shape) < 0.4, np.nan, x).astype(np.float32)
    every = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        one("regressor_" + aggregate.lower(), "TreeEnsembleRegressor", [x], n_targets=2, aggregate_function=aggregate, **forest("target", 3, 3, 4, [0, 1]))
    for mode in every:
        one("regressor_" + mode.lower(), "TreeEnsembleRegressor", [x], n_targets=1, **forest("target", 2, 2, 4, [0], [mode]))
    one("regressor_of_every_mode", "TreeEnsembleRegressor", [x], n_targets=2, base_values=[0.5, -1.0], **forest("target", 5, 4, 4, [0, 1], every))
    one("regressor_without_values", "TreeEnsembleRegressor", [missing], n_targets=2, **forest("target", 4, 3, 4, [0, 1], tracks=True))
    one("classifier_of_integers", "TreeEnsembleClassifier", [i64([[1, -2, 0, 3], [0, 0, 2, -1]])], outputs=2, classlabels_int64s=[1, 0, 2], **forest("class", 3, 2, 4, [0, 1, 2], whole=True))
    for post in ("NONE", "LOGISTIC", "SOFTMAX"):
        one("classifier_" + post.lower(), "TreeEnsembleClassifier", [x], outputs=2, classlabels_int64s=[7, 3, 5], post_transform=post, **forest("class", 5, 3, 4, [0, 1, 2], whole=True))
        one("classifier_of_two_" + post.lower(), "TreeEnsembleClassifier", [x], outputs=2, classlabels_int64s=[1, 1], post_transform=post, **forest("class", 5, 3, 4, [0, 1], low=0.0, whole=True))  # ONNX Runtime says 1 wherever the second counts for anything
    one("classifier_with_base_values", "TreeEnsembleClassifier", [x], outputs=2, classlabels_int64s=[7, 3, 5], base_values=[0.5, -0.25, 0.125], **forest("class", 5, 3, 4, [0, 1, 2], whole=True))
    for post in ("NONE", "LOGISTIC"):
        one("classifier_for_one_" + post.lower(), "TreeEnsembleClassifier", [x], outputs=2, classlabels_int64s=[4, 9], post_transform=post, **forest("class", 3, 2, 4, [0]))
        one("classifier_for_the_second_" + post.lower(), "TreeEnsembleClassifier", [x], outputs=2, classlabels_int64s=[4, 9], post_transform=post, **forest("class", 3, 2, 4, [1]))
        one("classifier_for_one_above_zero_" + post.lower(), "TreeEnsembleClassifier", [x], outputs=2, classlabels_int64s=[4, 9], post_transform=post, **forest("class", 1, 3, 4, [0], low=0.0))
    one("classifier_for_one_with_a_base_value", "TreeEnsembleClassifier", [x], outputs=2, classlabels_int64s=[4, 9], post_transform="LOGISTIC", base_values=[0.3], **forest("class", 3, 2, 4, [0]))


def integers(folder):
    """What exporters compute of counts, lengths and masks, where ONNX's own tests have floats alone."""
    for dtype in (np.int32, np.int64):
        def one(name, op, operands, opset=17, **more):
            case(folder, f"{name}_{np.dtype(dtype).name}", "", op, operands, opset=opset, **more)

        def numbers(*shape):
            return random.integers(-9, 10, shape).astype(dtype)

        for reduce in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"):
            axes = {} if reduce == "ReduceSum" else {"axes": [1]}
            operands = [numbers(3, 4)] + ([Known(i64([1]))] if reduce == "ReduceSum" else [])
            one(reduce.lower(), reduce, operands, keepdims=0, **axes)
        one("argmax", "ArgMax", [numbers(3, 5)], axis=1)
        one("matmul", "MatMul", [numbers(2, 3, 4), numbers(4, 5)])
        one("clip", "Clip", [numbers(3, 4), Known(np.array(-3, dtype)), Known(np.array(4, dtype))])
        one("max_of_three", "Max", [numbers(3, 4), numbers(4), numbers(3, 1)])
        one("sign", "Sign", [numbers(3, 4)])
        one("mod", "Mod", [numbers(3, 4), np.array([3, -2, 5, 7], dtype)])
        one("div", "Div", [numbers(3, 4), np.array([3, -2, 5, 7], dtype)])
        one("pow", "Pow", [numbers(3, 4), np.array([0, 1, 2, 3], dtype)])
        one("pad", "Pad", [numbers(2, 3), Known(i64([1, 0, 0, 2])), Known(np.array(7, dtype))])
        one("tile", "Tile", [numbers(2, 3), Known(i64([2, 1]))])
        one("where", "Where", [np.array([True, False, True]), numbers(2, 3), numbers(3)])
        one("equal", "Equal", [numbers(3, 4), numbers(4)])
        one("to_bool", "Cast", [np.array([[0, 2, -1], [1, 0, 0]], dtype)], to=TensorProto.BOOL)
        one("from_bool", "Cast", [np.array([[True, False]])], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    flags = [random.integers(0, 2, s).astype(bool) for s in ((2, 3), (3,))]
    for op in ("And", "Or", "Xor", "Equal"):
        case(folder, op.lower() + "_of_booleans", "", op, flags)
    case(folder, "not_of_booleans", "", "Not", flags[:1])
    case(folder, "expand_of_booleans", "", "Expand", [flags[1], Known(i64([2, 3]))])
    case(folder, "concat_of_booleans", "", "Concat", [flags[0], flags[0]], axis=1)


def other_flags(folder):
    """Attributes that say yes or no, with numbers that are neither 0 nor 1."""
    for value in (2, -1):
        def one(flag, op, operands, outputs=1, opset=18, **attributes):
            case(folder, f"{op}_{flag}_{value}".lower().replace("-", "minus_"), "", op, operands, outputs, opset, **{flag: value}, **attributes)

        one("keepdims", "ReduceSum", [f(2, 3), Known(i64([1]))])
        one("keepdims", "ReduceMax", [f(2, 3), Known(i64([0]))])
        one("keepdims", "ArgMax", [f(2, 3)], axis=1)
        one("noop_with_empty_axes", "ReduceSum", [f(2, 3), Known(i64([]))])
        one("select_last_index", "ArgMax", [np.ones((2, 3), np.float32)], axis=1)
        one("transA", "Gemm", [f(3, 2), f(3, 4)])
        one("transB", "Gemm", [f(2, 3), f(4, 3)])
        one("ceil_mode", "MaxPool", [f(1, 1, 6)], kernel_shape=[3], strides=[2])
        one("count_include_pad", "AveragePool", [f(1, 1, 5)], kernel_shape=[3], pads=[1, 1])
        one("largest", "TopK", [f(5), Known(i64([2]))], 2)
        one("allowzero", "Reshape", [f(2, 3), Known(i64([0, 3]))])
        one("detect_positive", "IsInf", [np.array([np.inf, -np.inf, 1], np.float32)])
        one("detect_negative", "IsInf", [np.array([np.inf, -np.inf, 1], np.float32)])
        one("upper", "Trilu", [f(3, 3)])
        one("align_corners", "GridSample", [f(1, 1, 3, 3), f(1, 2, 2, 2)])
        one("input_forget", "LSTM", [f(2, 1, 3), f(1, 8, 3), f(1, 8, 2)], hidden_size=2)
        one("linear_before_reset", "GRU", [f(2, 1, 3), f(1, 6, 3), f(1, 6, 2), f(1, 12)], hidden_size=2)


if __name__ == "__main__":
    for group in (fused, attention, tables, trees, integers, other_flags):
        group(sys.argv[1])
