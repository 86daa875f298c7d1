#!/usr/bin/env python3
"""Times training steps of one network in TensorFlow on the CPU and prints one JSON line, as bench/pytorch_steps.py does.

    python3 -m venv build/venv-tf && build/venv-tf/bin/pip install tensorflow-cpu
    build/venv-tf/bin/python bench/tensorflow_steps.py --model resnet50 --batch 8 --threads 2 --mode xla --precision bf16

The step is one tf.function: a graph of TensorFlow's (oneDNN's kernels included), or compiled by XLA. bf16 is Keras's
mixed_bfloat16: float32 weights, bfloat16 between them. Tensors have the channels last, as TensorFlow's CPU kernels want.
"""
import argparse
import json
import os
import resource
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf  # noqa: E402
import keras  # noqa: E402

from tensorflow_models import MODELS, VOCABULARY  # noqa: E402


def peak_rss():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    base_rss = peak_rss()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=("graph", "xla"), default="graph")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    if arguments.precision == "bf16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    make, shape = MODELS[arguments.model]
    given = keras.Input(shape, arguments.batch, dtype="int32" if len(shape) == 1 else "float32")
    model = keras.Model(given, make(given))
    x = tf.random.uniform(given.shape, 0, VOCABULARY, tf.int32) if len(shape) == 1 else tf.random.normal(given.shape)
    labels = tf.random.uniform(model.output.shape[:-1], 0, model.output.shape[-1], tf.int32)
    weights = [v.value for v in model.trainable_variables]
    momenta = [tf.Variable(tf.zeros_like(w)) for w in weights]

    @tf.function(jit_compile=arguments.mode == "xla")
    def step():
        with tf.GradientTape() as tape:
            logits = tf.cast(model(x, training=True), tf.float32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for weight, momentum, gradient in zip(weights, momenta, tape.gradient(loss, weights)):
            momentum.assign(0.9 * momentum + tf.convert_to_tensor(gradient))  # an Embedding's comes as rows
            weight.assign_sub(1e-3 * momentum)
        return loss

    milliseconds = []
    for number in range(-arguments.warmup, arguments.steps):
        begin = time.perf_counter()
        loss = step().numpy()
        if number >= 0:
            milliseconds.append(1e3 * (time.perf_counter() - begin))
    median = statistics.median(milliseconds)
    print(json.dumps({
        "program": f"tensorflow {tf.__version__} {arguments.mode}", "model": arguments.model, "batch": arguments.batch,
        "precision": arguments.precision, "threads": arguments.threads, "steps": arguments.steps, "median_ms": median,
        "min_ms": min(milliseconds), "samples_per_second": 1e3 * arguments.batch / median, "loss": float(loss),
        "base_rss_bytes": base_rss, "peak_rss_bytes": peak_rss(), "device_bytes": 0,
    }))


if __name__ == "__main__":
    main()
