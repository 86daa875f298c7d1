"""Architectures of timm of a seventh sample, chosen before anything of it was exported."""
from functools import partial

from row import Row, image
from timm_rows import make

VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}
# name: (size of the image, what the constructor takes)
MODELS = {
    "efficientvit_l1": (64, {}), "resnetv2_50d_frn": (64, {}), "dla60_res2next": (64, {}), "convnext_atto_rms": (64, {}),
    "efficientnet_b0_gn": (64, {}), "fastvit_mci0": (64, {}), "naflexvit_base_patch16_par_gap": (32, {"embed_dim": 48, "depth": 2, "num_heads": 4, "patch_size": 8,
                                                                                                      "pos_embed_grid_size": (4, 4)}),
    "resnet32ts": (64, {}), "vit_relpos_medium_patch16_cls_224": (32, VIT), "xception65p": (64, {}), "eca_vovnet39b": (64, {}), "skresnet50d": (64, {}),
    "ecaresnetlight": (64, {}), "swinv2_base_window12_192": (48, {"img_size": 48, "embed_dim": 24, "depths": (1, 1), "num_heads": (2, 4), "window_size": 6}),
    "pnasnet5large": (96, {}),
}
# By the norms of their first gradients in PyTorch.
RATES = {"dla60_res2next": 1e-9, "skresnet50d": 1e-6, **dict.fromkeys(("efficientvit_l1", "resnetv2_50d_frn", "efficientnet_b0_gn", "eca_vovnet39b", "pnasnet5large"), 1e-5)}
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}, rate=RATES.get(name, 0.01), calibrated=True) for name, (size, options) in MODELS.items()]
