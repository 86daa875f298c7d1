"""The networks of bench/models.py in Keras, with channels last, for bench/tensorflow_steps.py."""
import keras
from keras import layers

VOCABULARY, TOKENS = 8192, 128


def conv_norm(x, filters, kernel, stride=1, activation="relu", bias=False):
    x = layers.Conv2D(filters, kernel, stride, padding="same", use_bias=bias)(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
    return layers.Activation(activation)(x) if activation else x


def depthwise_norm(x, stride, activation):
    x = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)
    return layers.Activation(activation)(layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x))


def mlp(x):
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(512, "relu")(x)
    return layers.Dense(10)(x)


def lenet(x):
    for filters in (20, 50):
        x = layers.MaxPooling2D(2)(layers.Conv2D(filters, 5, padding="same", activation="relu")(x))
    return layers.Dense(10)(layers.Dense(500, "relu")(layers.Flatten()(x)))


def mini_googlenet(x):
    def inception(x, ones, threes):
        return layers.Concatenate()([conv_norm(x, ones, 1, bias=True), conv_norm(x, threes, 3, bias=True)])

    def downsample(x, threes):
        y = layers.Conv2D(threes, 3, 2)(x)
        y = layers.Activation("relu")(layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(y))
        return layers.Concatenate()([y, layers.MaxPooling2D(3, 2)(x)])

    x = conv_norm(x, 96, 3, bias=True)
    for ones, threes in ((32, 32), (32, 48)):
        x = inception(x, ones, threes)
    x = downsample(x, 80)
    for ones, threes in ((112, 48), (96, 64), (80, 80), (48, 96)):
        x = inception(x, ones, threes)
    x = downsample(x, 96)
    for ones, threes in ((176, 160), (176, 160)):
        x = inception(x, ones, threes)
    return layers.Dense(10)(layers.Dropout(0.5)(layers.Flatten()(layers.AveragePooling2D(7)(x))))


def resnet50(x):
    x = layers.MaxPooling2D(3, 2, padding="same")(conv_norm(x, 64, 7, 2))
    for width, count, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            stride = first_stride if i == 0 else 1
            shortcut = conv_norm(x, 4 * width, 1, stride, None) if i == 0 else x
            y = conv_norm(conv_norm(conv_norm(x, width, 1), width, 3, stride), 4 * width, 1, 1, None)
            x = layers.Activation("relu")(layers.Add()([y, shortcut]))
    return layers.Dense(1000)(layers.GlobalAveragePooling2D()(x))


def mobilenetv2(x):
    x, channels = conv_norm(x, 32, 3, 2, "relu6"), 32
    for expand, out, count, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                             (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            stride = first_stride if i == 0 else 1
            y = conv_norm(x, channels * expand, 1, 1, "relu6") if expand != 1 else x
            y = conv_norm(depthwise_norm(y, stride, "relu6"), out, 1, 1, None)
            x = layers.Add()([x, y]) if stride == 1 and channels == out else y
            channels = out
    x = layers.GlobalAveragePooling2D()(conv_norm(x, 1280, 1, 1, "relu6"))
    return layers.Dense(1000)(layers.Dropout(0.2)(x))


def xception(x):
    def separable(x, filters):
        return conv_norm(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x), filters, 1, 1, None)

    def relu(x):
        return layers.Activation("relu")(x)

    def downsampling(x, first, second, relu_first=True):
        y = separable(relu(separable(relu(x) if relu_first else x, first)), second)
        return layers.Add()([layers.MaxPooling2D(3, 2, padding="same")(y), conv_norm(x, second, 1, 2, None)])

    for filters, stride in ((32, 2), (64, 1)):
        x = layers.Conv2D(filters, 3, stride, use_bias=False)(x)
        x = relu(layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x))
    for width, relu_first in ((128, False), (256, True), (728, True)):
        x = downsampling(x, width, width, relu_first)
    for _ in range(8):
        y = x
        for _ in range(3):
            y = separable(relu(y), 728)
        x = layers.Add()([x, y])
    x = downsampling(x, 728, 1024)
    for filters in (1536, 2048):
        x = relu(separable(x, filters))
    return layers.Dense(1000)(layers.GlobalAveragePooling2D()(x))


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(1, *shape[1:]), initializer=keras.initializers.RandomNormal(stddev=0.02))

    def call(self, x):
        return x + keras.ops.cast(self.table, x.dtype)


def norm(x):
    return layers.LayerNormalization(epsilon=1e-5)(x)


def block(x, width, heads, causal=False, norm_first=True):
    def attention(y):
        return layers.MultiHeadAttention(heads, width // heads)(y, y, use_causal_mask=causal)

    def feed_forward(y):
        return layers.Dense(width)(layers.Activation(exact_gelu)(layers.Dense(4 * width)(y)))

    if norm_first:
        x = layers.Add()([x, attention(norm(x))])
        return layers.Add()([x, feed_forward(norm(x))])
    x = norm(layers.Add()([x, attention(x)]))
    return norm(layers.Add()([x, feed_forward(x)]))


def exact_gelu(x):
    return keras.activations.gelu(x, approximate=False)


def bert_mini(x):
    x = norm(Positions()(layers.Embedding(VOCABULARY, 256)(x)))
    for _ in range(4):
        x = block(x, 256, 4, norm_first=False)
    return layers.Dense(10)(x[:, 0])


def vit_tiny(x):
    x = Positions()(layers.Reshape((196, 192))(layers.Conv2D(192, 16, 16)(x)))
    for _ in range(12):
        x = block(x, 192, 3)
    return layers.Dense(1000)(layers.GlobalAveragePooling1D()(norm(x)))


def gpt_mini(x):
    x = Positions()(layers.Embedding(VOCABULARY, 256)(x))
    for _ in range(4):
        x = block(x, 256, 4, causal=True)
    return layers.Dense(VOCABULARY, use_bias=False)(norm(x))


def lstm(x):
    return layers.Dense(10)(layers.LSTM(256)(layers.Embedding(VOCABULARY, 256)(x)))


def gru(x):
    return layers.Dense(10)(layers.GRU(256)(layers.Embedding(VOCABULARY, 256)(x)))


# How the network is made, and a sample's input: an image's shape, or a number of tokens.
MODELS = {
    "mlp": (mlp, (28, 28, 1)),
    "lenet": (lenet, (28, 28, 1)),
    "mini_googlenet": (mini_googlenet, (32, 32, 3)),
    "resnet50": (resnet50, (224, 224, 3)),
    "mobilenetv2": (mobilenetv2, (224, 224, 3)),
    "xception": (xception, (224, 224, 3)),
    "bert_mini": (bert_mini, (TOKENS,)),
    "vit_tiny": (vit_tiny, (224, 224, 3)),
    "gpt_mini": (gpt_mini, (TOKENS,)),
    "lstm": (lstm, (TOKENS,)),
    "gru": (gru, (TOKENS,)),
}
