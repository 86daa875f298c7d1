#!/usr/bin/env python3
"""Writes the template models of this folder: python3 models/make_models.py [FOLDER]

Needs the onnx package only. Equal runs give equal bytes. Weights carry no data: each is a ConstantOfShape node whose
output has the weight's name, so that the files stay small, valid and readable by any ONNX tool.
"""
import pathlib
import sys

import onnx
from onnx import TensorProto, helper

OPSET, IR_VERSION = 17, 8


class Model:
    """One network under construction. Layers are named as their parameters' prefix: 'layer1.0.conv1'."""

    def __init__(self, name, doc, image, classes):
        self.name, self.doc, self.classes = name, doc, classes
        self.nodes, self.initializers = [], {}
        self.parameters = 0  # trainable ones
        self.weight_nodes = []
        self.input = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", *image])
        self.channels = {"image": image[0]}

    def constant(self, name, dtype, dims, values):
        self.initializers[name] = helper.make_tensor(name, dtype, dims, values)
        return name

    def weight(self, name, shape, value=0.0, trainable=True):
        dims = self.constant("shape_" + "x".join(map(str, shape)), TensorProto.INT64, [len(shape)], shape)
        attributes = {"value": helper.make_tensor("value", TensorProto.FLOAT, [1], [value])} if value else {}
        self.weight_nodes.append(helper.make_node("ConstantOfShape", [dims], [name], name=name, **attributes))
        count = 1
        for d in shape:
            count *= d
        self.parameters += count if trainable else 0
        return name

    def add(self, op, name, inputs, channels=None, **attributes):
        """A node with one output, named like the node; channels are the first input's unless given."""
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        self.channels[name] = channels or self.channels[inputs[0]]
        return name

    def conv(self, name, x, out, kernel, stride=1, pad=0, group=1, bias=False):
        inputs = [x, self.weight(name + ".weight", [out, self.channels[x] // group, kernel, kernel])]
        if bias:
            inputs.append(self.weight(name + ".bias", [out]))
        return self.add("Conv", name, inputs, out, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                        dilations=[1, 1], group=group)

    def norm(self, name, x):
        c = [self.channels[x]]
        return self.add("BatchNormalization", name, [
            x, self.weight(name + ".weight", c, 1.0), self.weight(name + ".bias", c),
            self.weight(name + ".running_mean", c, 0.0, False), self.weight(name + ".running_var", c, 1.0, False),
        ], epsilon=1e-5, momentum=0.9)

    def linear(self, name, x, inputs, outputs):
        return self.add("Gemm", name, [x, self.weight(name + ".weight", [outputs, inputs]),
                                       self.weight(name + ".bias", [outputs])], outputs, transB=1)

    def relu(self, name, x):
        return self.add("Relu", name, [x])

    def max_pool(self, name, x, kernel, stride, pad=0):
        return self.add("MaxPool", name, [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def dropout(self, name, x, ratio):
        return self.add("Dropout", name, [x, self.constant(f"ratio_{ratio}", TensorProto.FLOAT, [], [ratio])])

    def flatten(self, x):
        return self.add("Flatten", "flatten", [x])

    def pooled(self, x):
        return self.flatten(self.add("GlobalAveragePool", "avgpool", [x]))

    def logits(self, name, x, inputs):
        self.linear(name, x, inputs, self.classes)
        self.nodes[-1].output[0] = "logits"
        return self

    def build(self):
        output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", self.classes])
        graph = helper.make_graph(self.weight_nodes + self.nodes, self.name, [self.input], [output],
                                  list(self.initializers.values()), doc_string=self.doc)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
                                  producer_name="tandem models/make_models.py")
        onnx.checker.check_model(model, full_check=True)
        return model


def mlp():
    m = Model("mlp", "Two hidden layers of 512 for 28x28 images of 10 classes.", [1, 28, 28], 10)
    x = m.relu("relu1", m.linear("fc1", m.flatten("image"), 784, 512))
    x = m.relu("relu2", m.linear("fc2", x, 512, 512))
    return m.logits("fc3", x, 512)


def lenet():
    m = Model("lenet", "LeNet (LeCun et al. 1998) with ReLU, max pooling and 20 and 50 filters, for 28x28 images.",
              [1, 28, 28], 10)
    x = m.max_pool("pool1", m.relu("relu1", m.conv("conv1", "image", 20, 5, pad=2, bias=True)), 2, 2)
    x = m.max_pool("pool2", m.relu("relu2", m.conv("conv2", x, 50, 5, pad=2, bias=True)), 2, 2)
    x = m.relu("relu3", m.linear("fc1", m.flatten(x), 50 * 7 * 7, 500))
    return m.logits("fc2", x, 500)


def mini_googlenet():
    m = Model("mini_googlenet", "The small Inception network of Zhang et al. 2017 (Understanding deep learning requires "
              "rethinking generalization) for 32x32 RGB images of 10 classes.", [3, 32, 32], 10)

    def conv_module(name, x, out, kernel, stride=1, pad=0):
        x = m.conv(name + ".conv", x, out, kernel, stride, pad, bias=True)
        return m.relu(name + ".relu", m.norm(name + ".bn", x))

    def inception(name, x, ones, threes):
        a = conv_module(name + ".1x1", x, ones, 1)
        b = conv_module(name + ".3x3", x, threes, 3, pad=1)
        return m.add("Concat", name + ".concat", [a, b], ones + threes, axis=1)

    def downsample(name, x, threes):
        a = conv_module(name + ".3x3", x, threes, 3, stride=2)
        b = m.max_pool(name + ".pool", x, 3, 2)
        return m.add("Concat", name + ".concat", [a, b], threes + m.channels[x], axis=1)

    x = conv_module("stem", "image", 96, 3, pad=1)
    for i, (ones, threes) in enumerate([(32, 32), (32, 48)]):
        x = inception(f"inception1.{i}", x, ones, threes)
    x = downsample("downsample1", x, 80)
    for i, (ones, threes) in enumerate([(112, 48), (96, 64), (80, 80), (48, 96)]):
        x = inception(f"inception2.{i}", x, ones, threes)
    x = downsample("downsample2", x, 96)
    for i, (ones, threes) in enumerate([(176, 160), (176, 160)]):
        x = inception(f"inception3.{i}", x, ones, threes)
    x = m.add("AveragePool", "avgpool", [x], kernel_shape=[7, 7], strides=[1, 1])
    return m.logits("fc", m.flatten(m.dropout("dropout", x, 0.5)), 336)


def resnet(name, blocks, bottleneck):
    m = Model(name, "Residual network (He et al. 2015) for 224x224 RGB images of 1000 classes; in bottlenecks the 3x3 "
              "convolution has the stride.", [3, 224, 224], 1000)

    def block(prefix, x, width, stride):
        out = width * (4 if bottleneck else 1)
        convs = [(width, 1, 1), (width, 3, stride), (out, 1, 1)] if bottleneck else [(width, 3, stride), (width, 3, 1)]
        y = x
        for i, (channels, kernel, s) in enumerate(convs, 1):
            y = m.conv(f"{prefix}.conv{i}", y, channels, kernel, s, kernel // 2)
            y = m.norm(f"{prefix}.bn{i}", y)
            if i < len(convs):
                y = m.relu(f"{prefix}.relu{i}", y)
        if stride != 1 or m.channels[x] != out:
            x = m.norm(f"{prefix}.downsample.1", m.conv(f"{prefix}.downsample.0", x, out, 1, stride))
        return m.relu(f"{prefix}.relu", m.add("Add", f"{prefix}.add", [y, x]))

    x = m.relu("relu", m.norm("bn1", m.conv("conv1", "image", 64, 7, 2, 3)))
    x = m.max_pool("maxpool", x, 3, 2, 1)
    for stage, count in enumerate(blocks, 1):
        for i in range(count):
            x = block(f"layer{stage}.{i}", x, 32 << stage, 2 if stage > 1 and i == 0 else 1)
    features = m.channels[x]
    return m.logits("fc", m.pooled(x), features)


def mobilenetv2():
    m = Model("mobilenetv2", "MobileNetV2 (Sandler et al. 2018), width 1, for 224x224 RGB images of 1000 classes.",
              [3, 224, 224], 1000)
    low = m.constant("relu6_min", TensorProto.FLOAT, [], [0.0])
    high = m.constant("relu6_max", TensorProto.FLOAT, [], [6.0])

    def conv_bn(name, x, out, kernel, stride=1, group=1, relu6=True):
        x = m.norm(name + ".bn", m.conv(name + ".conv", x, out, kernel, stride, kernel // 2, group))
        return m.add("Clip", name + ".relu6", [x, low, high]) if relu6 else x

    x, index = conv_bn("features.0", "image", 32, 3, 2), 1
    for expand, out, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(count):
            name, shortcut, hidden = f"features.{index}", x, m.channels[x] * expand
            s = stride if i == 0 else 1
            y = conv_bn(name + ".expand", x, hidden, 1) if expand != 1 else x
            y = conv_bn(name + ".depthwise", y, hidden, 3, s, group=hidden)
            y = conv_bn(name + ".project", y, out, 1, relu6=False)
            x = m.add("Add", name + ".add", [shortcut, y]) if s == 1 and m.channels[shortcut] == out else y
            index += 1
    x = conv_bn(f"features.{index}", x, 1280, 1)
    return m.logits("classifier", m.dropout("dropout", m.pooled(x), 0.2), 1280)


def xception():
    m = Model("xception", "Xception (Chollet 2017) for 224x224 RGB images of 1000 classes.", [3, 224, 224], 1000)

    def conv_bn(name, x, out, kernel, stride=1):
        return m.norm(name + ".bn", m.conv(name + ".conv", x, out, kernel, stride))

    def separable(name, x, out):
        x = m.conv(name + ".depthwise", x, m.channels[x], 3, pad=1, group=m.channels[x])
        return m.norm(name + ".bn", m.conv(name + ".pointwise", x, out, 1))

    def downsampling(name, x, first, second, relu_first=True):
        shortcut = conv_bn(name + ".shortcut", x, second, 1, 2)
        y = m.relu(name + ".relu1", x) if relu_first else x
        y = m.relu(name + ".relu2", separable(name + ".sep1", y, first))
        y = m.max_pool(name + ".pool", separable(name + ".sep2", y, second), 3, 2, 1)
        return m.add("Add", name + ".add", [y, shortcut])

    x = m.relu("entry.relu1", conv_bn("entry.stem1", "image", 32, 3, 2))
    x = m.relu("entry.relu2", conv_bn("entry.stem2", x, 64, 3))
    x = downsampling("entry.block1", x, 128, 128, relu_first=False)
    x = downsampling("entry.block2", x, 256, 256)
    x = downsampling("entry.block3", x, 728, 728)
    for i in range(8):
        name, y = f"middle.block{i}", x
        for j in (1, 2, 3):
            y = separable(f"{name}.sep{j}", m.relu(f"{name}.relu{j}", y), 728)
        x = m.add("Add", name + ".add", [y, x])
    x = downsampling("exit.block", x, 728, 1024)
    x = m.relu("exit.relu1", separable("exit.sep1", x, 1536))
    x = m.relu("exit.relu2", separable("exit.sep2", x, 2048))
    return m.logits("fc", m.pooled(x), 2048)


def resnet18():
    return resnet("resnet18", [2, 2, 2, 2], bottleneck=False)


def resnet50():
    return resnet("resnet50", [3, 4, 6, 3], bottleneck=True)


# Name, trainable parameters as published (None: this variant has no published count).
MODELS = [(mlp, None), (lenet, None), (mini_googlenet, None), (resnet18, 11689512), (resnet50, 25557032),
          (mobilenetv2, 3504872), (xception, 22855952)]


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    for make, published in MODELS:
        m = make()
        data = m.build().SerializeToString(deterministic=True)
        assert len(data) < 300 * 1024, (m.name, len(data))
        assert published in (None, m.parameters), (m.name, m.parameters, published)
        (folder / f"{m.name}.onnx").write_bytes(data)
        print(f"{m.name}: {m.parameters} parameters, {len(m.nodes)} layers, {len(data)} bytes")


if __name__ == "__main__":
    main()
