"""Models in Keras, whatever backend it has: PyTorch's is the oracle, TensorFlow's is what tf2onnx exports."""
import keras
from keras import Input, Model, layers as L

IMAGE, SERIES, WORDS = (16, 16, 3), (10, 8), 31


def image(body, head=True):
    x = Input(IMAGE, name="x")
    y = body(x)
    return Model(x, L.Dense(10)(L.GlobalAveragePooling2D()(y)) if head else y)


def series(body):
    x = Input(SERIES, name="x")
    return Model(x, body(x))


def text(body):
    x = Input((10,), dtype="int32", name="x")
    return Model(x, L.Dense(4)(body(L.Embedding(WORDS, 8)(x))))


def conv(filters, stride=1):
    return lambda x: L.ReLU()(L.BatchNormalization()(L.Conv2D(filters, 3, stride, "same", use_bias=False)(x)))


def chain(*parts):
    def run(x):
        for part in parts:
            x = part(x)
        return x
    return run


def residual(x):
    y = chain(conv(8, 2), L.Conv2D(8, 3, padding="same"), L.BatchNormalization())(x)
    return L.ReLU()(L.Add()([y, L.Conv2D(8, 1, 2)(x)]))


def unet(up):
    def body(x):
        a = conv(8)(x)
        b = conv(16)(L.MaxPooling2D()(a))
        u = L.Conv2DTranspose(8, 2, 2, "same")(b) if up == "transposed" else L.UpSampling2D(interpolation=up)(b)
        return L.Conv2D(4, 1)(L.Concatenate()([a, u]))
    return lambda: image(body, False)


def squeeze(x):
    y = conv(8)(x)
    s = L.Dense(8, "sigmoid")(L.Dense(2, "relu")(L.GlobalAveragePooling2D()(y)))
    return L.Multiply()([y, L.Reshape((1, 1, 8))(s)])


def encoder(x):
    y = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)]))
    y = L.LayerNormalization()(L.Add()([y, L.Dense(8)(L.Dense(16, "gelu")(y))]))
    return L.Dense(4)(L.GlobalAveragePooling1D()(y))


def mlp():
    x = Input((12,), name="x")
    return Model(x, chain(L.Dense(16, "relu"), L.Dense(16, "tanh"), L.Dense(4))(x))


def autoencoder():
    x = Input((12,), name="x")
    return Model(x, chain(L.Dense(8, "elu"), L.Dense(3), L.Dense(8, "softplus"), L.Dense(12))(x))


def application(name, **options):
    return lambda: getattr(keras.applications, name)(weights=None, classes=10, classifier_activation=None, **options)


MODELS = {
    "mlp": mlp, "autoencoder": autoencoder,
    "cnn": lambda: image(chain(conv(8), L.MaxPooling2D(), conv(16))),
    "separable": lambda: image(chain(L.SeparableConv2D(8, 3, padding="same"), L.BatchNormalization(), L.Activation("swish"),
                                     L.DepthwiseConv2D(3, 2, padding="same"))),
    "residual": lambda: image(residual), "squeeze": lambda: image(squeeze),
    "group_norm": lambda: image(chain(L.Conv2D(8, 3), L.GroupNormalization(4), L.LeakyReLU(), L.Conv2D(8, 3, dilation_rate=2))),
    "unet_transposed": unet("transposed"), "unet_nearest": unet("nearest"), "unet_bilinear": unet("bilinear"),
    "text_mean": lambda: text(L.GlobalAveragePooling1D()), "text_conv": lambda: text(chain(L.Conv1D(8, 3, activation="relu"), L.GlobalMaxPooling1D())),
    "lstm": lambda: text(L.LSTM(6)), "gru": lambda: text(L.GRU(6)), "simple_rnn": lambda: text(L.SimpleRNN(6)),
    "bilstm": lambda: text(L.Bidirectional(L.LSTM(6))), "lstm_stack": lambda: text(chain(L.LSTM(6, return_sequences=True), L.LSTM(6))),
    "causal_conv": lambda: series(chain(L.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu"), L.Flatten(), L.Dense(4))),
    "transformer": lambda: series(encoder),
    "mobilenet": application("MobileNet", input_shape=(32, 32, 3), alpha=0.25, dropout=0.0),
    "mobilenet_v2": application("MobileNetV2", input_shape=(32, 32, 3), alpha=0.35),
}
