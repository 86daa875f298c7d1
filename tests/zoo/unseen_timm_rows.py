"""Architectures of timm that were chosen after tandem could train the others."""
from functools import partial

from timm.layers import GluMlp
from timm.models import metaformer, mlp_mixer

from row import Row, image
from timm_rows import make

# name: (size of the image, what the constructor takes)
NARROW = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2}
MODELS = {
    "mixnet_s": (64, {}), "fbnetv3_b": (64, {}), "hardcorenas_a": (64, {}), "spnasnet_100": (64, {}), "mobilenetv1_100": (64, {}), "mobilenetv2_035": (64, {}),
    "mnasnet_small": (64, {}), "efficientnet_lite0": (64, {}), "regnetz_005": (64, {}), "ghostnetv3_050": (64, {}), "iformer_t": (64, {}), "lowformer_b0": (64, {}),
    "cpubone_nano": (64, {}), "lcnetv2_base": (64, {}), "legacy_seresnet18": (64, {}), "resnet10t": (64, {}), "densenetblur121d": (64, {}),
    "vit_tiny_r_s16_p8_224": (64, {"img_size": 64, "embed_dim": 48, "depth": 2}),
    "swin_tiny_patch4_window7_224": (32, {"img_size": 32, "window_size": 4, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)}),
    "swinv2_tiny_window8_256": (32, {"img_size": 32, "window_size": 4, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)}),
    "flexivit_small": (32, {**NARROW, "num_heads": 4}),
    "vit_small_patch16_rope_224": (32, {**NARROW, "num_heads": 4}),
    "coat_tiny": (64, {"img_size": 64}),
    "eca_botnext26ts_256": (64, {"img_size": 64}), "resnetaa50": (64, {"layers": (1, 1, 1, 1)}), "gcresnext26ts": (64, {}),
    "naflexvit_base_patch16_gap": (32, {"embed_dim": 48, "depth": 2, "num_heads": 4, "patch_size": 8}),
    "vit_base_patch16_siglip_gap_224": (32, {**NARROW, "num_heads": 4}),
    "aimv2_large_patch14_224": (32, {**NARROW, "num_heads": 4}),
}
BY_CLASS = {
    "gmixer": (64, lambda: mlp_mixer.MlpMixer(10, 64, patch_size=16, num_blocks=2, embed_dim=32, mlp_ratio=(1.0, 4.0), mlp_layer=GluMlp)),
    "convformer": (64, lambda: metaformer.MetaFormer(num_classes=10, depths=(1, 1, 1, 1), dims=(16, 32, 32, 64), token_mixers=metaformer.SepConv)),
}
RATES = {"mixnet_s": 1e-5}  # its first gradient's norm is 250
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}, rate=RATES.get(name, 0.01)) for name, (size, options) in MODELS.items()] + [
    Row(f"timm_{name}", "timm", build, {"x": image(size)}) for name, (size, build) in BY_CLASS.items()]
