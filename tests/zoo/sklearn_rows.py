"""scikit-learn's models that have weights, by skl2onnx; the oracle is the same model in PyTorch, with the estimator's numbers."""
import numpy
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from torch import nn

from row import Row, Values

VARIANTS = ("skl2onnx17.dyn", "skl2onnx13.b2")
WIDTH, KINDS = 6, 4
random = numpy.random.RandomState(7)
X = random.randn(64, WIDTH)
CLASS, NUMBER = numpy.arange(64) % KINDS, X[:, :1].ravel() + 0.1 * random.randn(64)


class Estimator(nn.Module):
    """A pipeline's numbers: `before` is computed by formulas, the layers are trained."""

    def __init__(self, pipeline, before=None):
        super().__init__()
        self.pipeline, self.before = pipeline, before
        last = pipeline[-1]
        sizes = [w.shape for w in last.coefs_] if hasattr(last, "coefs_") else [(WIDTH, last.coef_.reshape(-1, WIDTH).shape[0])]
        self.layers = nn.ModuleList(nn.Linear(*size) for size in sizes)

    def forward(self, x):
        if self.before:
            x = self.before(self.pipeline, x)
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)

    def estimator(self):
        """scikit-learn's pipeline with these weights."""
        last = self.pipeline[-1]
        weights, biases = [m.weight.detach().numpy().astype(float) for m in self.layers], [m.bias.detach().numpy().astype(float) for m in self.layers]
        if hasattr(last, "coefs_"):
            last.coefs_, last.intercepts_ = [w.T for w in weights], biases
        else:
            last.coef_, last.intercept_ = (weights[0], biases[0]) if last.coef_.ndim > 1 else (weights[0].ravel(), biases[0][0])
        return self.pipeline


def fitted(*parts):
    classes = isinstance(parts[-1], (LogisticRegression, MLPClassifier))
    return make_pipeline(*parts).fit(X, CLASS if classes else NUMBER)


def numbers(values):
    return torch.tensor(numpy.asarray(values), dtype=torch.float32)


def standard(p, x):
    return (x - numbers(p[0].mean_).to(x.dtype)) / numbers(p[0].scale_).to(x.dtype)


def min_max(p, x):
    return x * numbers(p[0].scale_).to(x.dtype) + numbers(p[0].min_).to(x.dtype)


def unit(p, x):
    return x / x.norm(dim=1, keepdim=True)


def principal(p, x):
    return (x - numbers(p[0].mean_).to(x.dtype)) @ numbers(p[0].components_).to(x.dtype).T


def write(row, opset, batch, path):
    pipeline = row.model().estimator()
    classifier = hasattr(pipeline[-1], "classes_") and not isinstance(pipeline[-1], MLPRegressor)
    options = {id(pipeline): {"zipmap": False}} if classifier else None
    model = convert_sklearn(pipeline, initial_types=[("x", FloatTensorType([None if batch == "dyn" else int(batch[1:]), WIDTH]))],
                            target_opset={"": opset, "ai.onnx.ml": 3}, options=options)
    path.write_bytes(model.SerializeToString())


def mlp(kind):
    return kind(hidden_layer_sizes=(8, 8), max_iter=3, random_state=1)


def row(name, parts, before=None, regression=False, options=()):
    labels, loss = (Values((1,)), ()) if regression else (Values((), below=KINDS), ("--loss-on", "probabilities"))
    return Row(f"sklearn_{name}", "sklearn", lambda: Estimator(fitted(*parts), before), {"x": Values((WIDTH,))}, labels, options=(*loss, *options),
               variants=VARIANTS, write=write)


ROWS = [
    row("mlp_classifier", [mlp(MLPClassifier)]),
    row("mlp_regressor", [mlp(MLPRegressor)], None, True),
    row("logistic_regression", [LogisticRegression(max_iter=5)]),
    row("linear_regression", [LinearRegression()], None, True),
    row("ridge", [Ridge()], None, True),
    row("standard_scaler_mlp", [StandardScaler(), mlp(MLPClassifier)], standard),
    row("min_max_scaler_mlp", [MinMaxScaler(), mlp(MLPClassifier)], min_max, options=("--constant", "Mu_Mulcst,Ad_Addcst")),
    row("normalizer_logistic", [Normalizer(), LogisticRegression(max_iter=5)], unit),
    row("pca_mlp", [PCA(whiten=False), mlp(MLPRegressor)], principal, True, ("--constant", "transform_matrix,mean")),  # fitted before, not trained
]
