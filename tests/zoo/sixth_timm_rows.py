"""Architectures of timm of a sixth sample, chosen before anything of it was exported."""
from functools import partial

from row import Row, image
from timm_rows import make

VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}
# name: (size of the image, what the constructor takes)
MODELS = {
    "efficientnet_cc_b0_4e": (64, {}), "efficientnet_blur_b0": (64, {}), "resnet51q": (64, {}), "resnet50_clip": (64, {}), "dla60x_c": (64, {}), "dpn68": (64, {}),
    "coatnet_nano_cc_224": (64, {"img_size": 64}), "maxvit_rmlp_pico_rw_256": (64, {"img_size": 64}), "levit_conv_128s": (128, {"img_size": 128}),
    "vit_pe_core_tiny_patch16_384": (32, VIT), "beit3_base_patch16_224": (32, VIT), "gemma4_vit_167m": (48, {"embed_dim": 48, "depth": 2, "num_heads": 4}),
    "naflexvit_base_patch16_map": (32, {"embed_dim": 48, "depth": 2, "num_heads": 4, "patch_size": 8, "pos_embed_grid_size": (4, 4)}), "regnety_040_sgn": (64, {}),
    "mobilenetv3_rw": (64, {}), "xception41": (64, {}),
}
RATES = {"resnet51q": 1e-3, "dla60x_c": 1e-9, **dict.fromkeys(("efficientnet_cc_b0_4e", "efficientnet_blur_b0", "dpn68", "mobilenetv3_rw", "xception41"), 1e-5)}  # by the norms of their first gradients in PyTorch
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}, rate=RATES.get(name, 0.01), calibrated=True) for name, (size, options) in MODELS.items()]
