"""Architectures of timm that were chosen after the unseen ones had been mended."""
from functools import partial

from row import Row, image
from timm_rows import make

NARROW = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}
# name: (size of the image, what the constructor takes)
MODELS = {
    "csatv2": (64, {}), "inception_v4": (96, {}), "inception_resnet_v2": (96, {}), "legacy_xception": (64, {}), "vgg11_bn": (64, {}),
    "nextvit_small": (64, {}), "samvit_base_patch16_224": (32, {**NARROW, "window_size": 2, "global_attn_indexes": (1,)}),
    "qwen3_vit_88m": (32, NARROW), "deepseek_vit_412m": (32, NARROW), "crossvit_9_dagger_240": (240, {}),
    "maxxvit_rmlp_nano_rw_256": (64, {"img_size": 64}), "resnext26ts": (64, {}), "seresnextaa101d_32x8d": (64, {"layers": (1, 1, 1, 1)}), "regnety_002": (64, {}),
    "vit_little_patch16_reg1_gap_256": (32, NARROW),
    "eva02_small_patch14_224": (28, {"img_size": 28, "embed_dim": 48, "depth": 2}),
}
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}) for name, (size, options) in MODELS.items()]
