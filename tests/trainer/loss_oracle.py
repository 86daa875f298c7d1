"""Compares losses, their gradients and metrics with PyTorch's and scikit-learn's. Arguments: a folder of .npz files, each with x, w
(scores are x * w), t, loss, gradient (of w), metrics by name, and in "row" the name of the oracle below."""
import json
import sys
from pathlib import Path

try:
    import numpy as np
    import sklearn.metrics as sk
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print("needs", missing)
    sys.exit(3)


def one_hot(t, z):
    return F.one_hot(t, z.shape[1]).to(z.dtype)


def focal(z, t):
    ce = F.cross_entropy(z, t, reduction="none")
    return ((1 - torch.exp(-ce)) ** 2 * ce).mean()


def binary_focal(z, t):  # torchvision.ops.sigmoid_focal_loss
    p = torch.sigmoid(z)
    p_t = p * t + (1 - p) * (1 - t)
    return ((0.25 * t + 0.75 * (1 - t)) * F.binary_cross_entropy_with_logits(z, t, reduction="none") * (1 - p_t) ** 2).mean()


def categorical_hinge(z, t):  # keras.losses.categorical_hinge
    y = one_hot(t, z)
    return torch.clamp(((1 - y) * z).amax(1) - (y * z).sum(1) + 1, min=0).mean()


def sign(t):
    return torch.where(t > 0, 1.0, -1.0).to(t.dtype)


def weighted(each, s):
    return (each.reshape(len(each), -1).mean(1) * s).sum() / s.sum()


def ctc(z, t, blank=0, **options):
    return F.ctc_loss(F.log_softmax(z, 2).transpose(0, 1), t, torch.full((len(z),), z.shape[1]), (t != -1).sum(1), blank=blank, **options)


W = torch.tensor([1.0, 2.0, 0.5, 0.0, 3.0], dtype=torch.float64)
CE = F.cross_entropy
LOSSES = {
    "cross_entropy": lambda z, t, s: CE(z, t),
    "cross_entropy_smooth": lambda z, t, s: CE(z, t, label_smoothing=0.1),
    "cross_entropy_weighted": lambda z, t, s: CE(z, t, weight=W),
    "cross_entropy_weighted_smooth_ignored": lambda z, t, s: CE(z, t, weight=W, label_smoothing=0.1, ignore_index=1),
    "cross_entropy_dense_weighted_smooth": lambda z, t, s: CE(z, t, weight=W, label_smoothing=0.1),
    "cross_entropy_samples": lambda z, t, s: (CE(z, t, reduction="none") * s).sum() / s.sum(),
    "tokens_last": lambda z, t, s: CE(z.transpose(1, 2), t, ignore_index=-100),
    "tokens_first": lambda z, t, s: CE(z, t, ignore_index=-100),
    "tokens_samples": lambda z, t, s: (CE(z, t, reduction="none") * s[:, None]).sum() / (s[:, None] * (t != -100)).sum(),
    "next_token": lambda z, t, s: CE(z[:, :-1].transpose(1, 2), t[:, 1:]),
    "bce": lambda z, t, s: F.binary_cross_entropy_with_logits(z, t),
    "bce_pos": lambda z, t, s: F.binary_cross_entropy_with_logits(z, t, pos_weight=torch.tensor(3.0)),
    "bce_samples": lambda z, t, s: weighted(F.binary_cross_entropy_with_logits(z, t, reduction="none"), s),
    "multi_label": lambda z, t, s: F.multilabel_soft_margin_loss(z, t),
    "mse": lambda z, t, s: F.mse_loss(z, t),
    "mse_samples": lambda z, t, s: weighted((z - t) ** 2, s),
    "l1": lambda z, t, s: F.l1_loss(z, t),
    "smooth_l1": lambda z, t, s: F.smooth_l1_loss(z, t, beta=0.5),
    "huber": lambda z, t, s: F.huber_loss(z, t, delta=0.7),
    "log_cosh": lambda z, t, s: torch.log(torch.cosh(z - t)).mean(),
    "poisson": lambda z, t, s: F.poisson_nll_loss(z, t),
    "focal": lambda z, t, s: focal(z, t),
    "binary_focal": lambda z, t, s: binary_focal(z, t),
    "kl": lambda z, t, s: F.kl_div(F.log_softmax(z, 1), t, reduction="batchmean"),
    "hinge": lambda z, t, s: torch.clamp(1 - z * sign(t), min=0).mean(),
    "squared_hinge": lambda z, t, s: (torch.clamp(1 - z * sign(t), min=0) ** 2).mean(),
    "soft_margin": lambda z, t, s: F.soft_margin_loss(z, sign(t)),
    "categorical_hinge": lambda z, t, s: categorical_hinge(z, t),
    "multi_margin": lambda z, t, s: F.multi_margin_loss(z, t),
    "cosine": lambda z, t, s: F.cosine_embedding_loss(z, t, torch.ones(len(z), dtype=z.dtype)),
    "ctc": lambda z, t, s: ctc(z, t),
    "ctc_places_first": lambda z, t, s: ctc(z, t),
    "ctc_samples_blank": lambda z, t, s: weighted(ctc(z, t, blank=5, reduction="none"), s),
    "ctc_zero_infinity": lambda z, t, s: ctc(z, t, zero_infinity=True),
    "ctc_long": lambda z, t, s: ctc(z, t),
    "file_mse": lambda z, t, s: F.mse_loss(z, t),
    "file_cross_entropy": lambda z, t, s: CE(z, t),
    "file_each_samples": lambda z, t, s: weighted((z - t) ** 2, s),
    "file_weights_samples": lambda z, t, s: weighted((z - t) ** 2, s),
    "file_of_inputs": lambda z, t, s, x: (z - x).abs().mean(),
    "triplet": lambda z, t, s: F.triplet_margin_loss(z[:, 0], z[:, 1], z[:, 2], margin=2.0),
}


def r2(t, p):
    return sk.r2_score(t.reshape(len(t), -1), p.reshape(len(p), -1))


def ovr_pr(t, p):
    return np.mean([sk.average_precision_score(t == c, p[:, c]) for c in range(p.shape[1])])


# name -> (labels, scores) of classes [M], [M,C]
CLASSES = {
    "f1": lambda t, z, p: sk.f1_score(t, z.argmax(1), average="macro"),
    "f1-micro": lambda t, z, p: sk.f1_score(t, z.argmax(1), average="micro"),
    "precision": lambda t, z, p: sk.precision_score(t, z.argmax(1), average="macro", zero_division=0),
    "recall": lambda t, z, p: sk.recall_score(t, z.argmax(1), average="macro", zero_division=0),
    "balanced-accuracy": lambda t, z, p: sk.balanced_accuracy_score(t, z.argmax(1)),
    "iou": lambda t, z, p: sk.jaccard_score(t, z.argmax(1), average="macro"),
    "top2": lambda t, z, p: sk.top_k_accuracy_score(t, z, k=2, labels=np.arange(z.shape[1])),
    "roc-auc": lambda t, z, p: sk.roc_auc_score(t, p, multi_class="ovr"),
    "pr-auc": lambda t, z, p: ovr_pr(t, p),
    "perplexity": lambda t, z, p: np.exp(sk.log_loss(t, p, labels=np.arange(z.shape[1]))),
}
BINARY = {
    "f1": lambda t, z: sk.f1_score(t, z > 0),
    "precision": lambda t, z: sk.precision_score(t, z > 0),
    "recall": lambda t, z: sk.recall_score(t, z > 0),
    "iou": lambda t, z: sk.jaccard_score(t, z > 0),
    "roc-auc": lambda t, z: sk.roc_auc_score(t, z),
    "pr-auc": lambda t, z: sk.average_precision_score(t, z),
}
NUMBERS = {
    "mae": lambda t, p: sk.mean_absolute_error(t.ravel(), p.ravel()),
    "rmse": lambda t, p: np.sqrt(sk.mean_squared_error(t.ravel(), p.ravel())),
    "r2": r2,
}


def wanted_metric(name, t, z):
    if name in NUMBERS:
        return NUMBERS[name](t, z)
    if z.ndim == 2 and z.shape[1] == 1:
        return BINARY[name](t.ravel(), z.ravel())
    p = torch.softmax(torch.tensor(z), 1).numpy()
    return CLASSES[name](t, z, p)


bad = []
for file in sorted(Path(sys.argv[1]).glob("*.npz")):
    data = np.load(file)
    name = file.stem
    x, t, s = (torch.tensor(data[k]) for k in ("x", "t", "s"))
    w = torch.tensor(data["w"]).double().requires_grad_()
    if t.is_floating_point():
        t = t.double()
    z = x.double() * w
    if z.ndim == 2 and z.shape[1] == 1:
        t = t.double().reshape(-1, 1)
    loss = LOSSES[name](z, t, s.double(), *([x.double()] if name == "file_of_inputs" else []))
    loss.backward()

    def near(what, got, want, least=1.0):
        error = np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64)).max()
        if not error <= 1e-6 * max(least, np.abs(want).max()):
            bad.append(f"{name}: {what} is {got}, expected {want}")

    near("loss", data["loss"], loss.item())
    near("evaluated loss", data["evaluated"], loss.item())
    # CTC's gradient is made of exponentials of sums as large as the loss: a float's last bit of these is its error.
    near("gradient", data["gradient"], w.grad.numpy(), max(1.0, 0.1 * loss.item()) if name.startswith("ctc") else 1.0)
    for key in data.files:
        if key.startswith("metric."):
            near(key, data[key], loss.item() if name.startswith("file_") else wanted_metric(key[7:], t.numpy(), z.detach().numpy()))
print("\n".join(bad))
sys.exit(1 if bad else 0)
