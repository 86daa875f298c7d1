"""Architectures of timm of a third sample, chosen before anything of it was run."""
from functools import partial

from row import Row, image
from timm_rows import make

NARROW = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}
SHALLOW = {"layers": (1, 1, 1, 1)}
# name: (size of the image, what the constructor takes)
MODELS = {
    "vit_small_patch16_18x2_224": (32, NARROW), "vit_base_patch16_clip_224": (32, NARROW), "vit_pwee_patch16_reg1_gap_256": (32, NARROW), "beitv2_base_patch16_224": (32, NARROW),
    "eva_large_patch14_196": (28, {"img_size": 28, "embed_dim": 48, "depth": 2, "num_heads": 4}), "vit_small_resnet26d_224": (64, {"img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 4}),
    "swinv2_cr_tiny_ns_224": (64, {"img_size": 64, "window_size": 2, "embed_dim": 24, "depths": (1, 1), "num_heads": (2, 4)}),
    "efficientnet_es": (64, {}), "efficientnet_b0_g8_gn": (64, {}), "efficientnetv2_rw_t": (64, {}), "tf_mobilenetv3_small_minimal_100": (64, {}), "semnasnet_075": (64, {}),
    "mobilenet_edgetpu_v2_xs": (64, {}), "mobilenetv4_hybrid_medium": (64, {}), "resnetrs50": (64, SHALLOW), "legacy_seresnext26_32x4d": (64, {}), "regnetx_002": (64, {}),
    "eca_nfnet_l0": (64, {}), "nf_seresnet26": (64, {}), "skresnext50_32x4d": (64, SHALLOW), "dla34": (64, {}), "convnext_zepto_rms": (64, {}), "convnext_atto_ols": (64, {}),
    "coatnext_nano_rw_224": (64, {"img_size": 64}), "pit_xs_distilled_224": (64, {"img_size": 64}), "mambaout_femto": (64, {}), "sebotnet33ts_256": (64, {"img_size": 64}),
    "regnetz_c16_evos": (64, {}), "cs3sedarknet_l": (64, {}), "hgnet_tiny": (64, {}), "tresnet_m": (64, {}), "edgenext_small_rw": (64, {}), "resnetv2_50d_evos": (64, SHALLOW),
}
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}) for name, (size, options) in MODELS.items()]
