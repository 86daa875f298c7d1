"""Architectures of timm of a fourth sample, chosen before anything of it was run."""
from functools import partial

from row import Row, image
from timm_rows import make

# name: (size of the image, what the constructor takes); deep ones with normalization get the statistics of a batch, without which they overflow
MODELS = {
    "densenet121": (64, {}), "poolformerv2_s12": (64, {}), "rexnetr_100": (64, {}), "fbnetc_100": (64, {}), "vovnet39a": (64, {}), "haloregnetz_b": (224, {}),
    "tf_efficientnetv2_b0": (64, {}), "vit_small_patch16_dinov3": (32, {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}),
    "hieradet_small": (64, {}),
}
STEEP = ("rexnetr_100", "fbnetc_100", "vovnet39a", "tf_efficientnetv2_b0")  # their first gradients have norms of hundreds in PyTorch
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}, rate=1e-5 if name in STEEP else 0.01, calibrated=True) for name, (size, options) in MODELS.items()]
