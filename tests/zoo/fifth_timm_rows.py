"""Architectures of timm of a fifth sample, chosen before anything of it was run."""
from functools import partial

from row import Row, image
from timm_rows import make

# name: (size of the image, what the constructor takes)
MODELS = {
    "inception_v3": (96, {}), "vitamin_small_224": (64, {"img_size": 64, "depth": 2}), "nasnetalarge": (96, {"stem_size": 8, "num_features": 384}),
    "rdnet_small": (64, {"num_init_features": 16, "growth_rates": (8, 16, 16, 16), "num_blocks_list": (1, 1, 1, 1), "is_downsample_block": (None, True, True, True),
                         "transition_compression_ratio": 0.5, "block_type": ["Block", "Block", "BlockESE", "BlockESE"]}),
    "swin_s3_tiny_224": (64, {"img_size": 64, "embed_dim": 24, "depths": (1, 1), "num_heads": (2, 4), "window_size": (4, 4)}),
    "vit_relpos_medium_patch16_rpn_224": (32, {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}),
    "res2next50": (64, {"layers": (1, 1, 1, 1)}), "regnetv_040": (64, {}),
}
STEEP = ("inception_v3", "nasnetalarge", "regnetv_040")  # their first gradients have norms of hundreds in PyTorch
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}, rate=1e-5 if name in STEEP else 0.01, calibrated=True) for name, (size, options) in MODELS.items()]
