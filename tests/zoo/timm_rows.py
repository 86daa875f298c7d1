"""Architectures of timm: its test_* models, and the smallest of each family, narrowed where its constructor takes sizes."""
from functools import partial

import timm
from timm import layers
from timm.layers import GatedMlp
from timm.models import convmixer, focalnet, gcvit, metaformer, mlp_mixer, mvitv2, nest, volo

from row import Row, image

# name: (size of the image, what the constructor takes)
MODELS = {
    "test_byobnet": (64, {}), "test_coatnet": (64, {"img_size": 64}), "test_convnext": (64, {}), "test_convnext2": (64, {}),
    "test_convnext3": (64, {}), "test_efficientnet": (64, {}), "test_efficientnet_evos": (64, {}), "test_efficientnet_gn": (64, {}),
    "test_efficientnet_ln": (64, {}), "test_mambaout": (64, {}), "test_maxvit": (64, {"img_size": 64}), "test_nfnet": (64, {}),
    "test_resnet": (64, {}), "test_vit": (64, {"img_size": 64}), "test_vit2": (64, {"img_size": 64}), "test_vit3": (64, {"img_size": 64}),
    "test_vit4": (64, {"img_size": 64}), "test_vit_relpos": (64, {"img_size": 64}),
    "repvgg_a0": (64, {}), "mobileone_s0": (64, {}), "fastvit_t8": (64, {}), "repghostnet_050": (64, {}), "repvit_m0_9": (64, {}),
    "ghostnet_050": (64, {}), "ghostnetv2_100": (64, {"drop_rate": 0.0}), "nf_regnet_b0": (64, {}), "nf_resnet26": (64, {}),
    "coatnet_pico_rw_224": (64, {"img_size": 64}), "coat_lite_tiny": (64, {"img_size": 64}),
    "beit_base_patch16_224": (32, {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}),
    "deit_tiny_distilled_patch16_224": (32, {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2}),
    "deit3_small_patch16_224": (32, {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2}),
    "cait_xxs24_224": (32, {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2}),
    "xcit_nano_12_p16_224": (64, {"img_size": 64, "depth": 2}), "levit_128s": (128, {"img_size": 128}),
    "pvt_v2_b0": (64, {}), "poolformer_s12": (64, {}),
    "hrnet_w18_small": (64, {}), "dla46_c": (64, {}), "rexnet_100": (64, {}),
    "res2net50_14w_8s": (64, {"layers": (1, 1, 1, 1)}), "skresnet18": (64, {}), "seresnet18": (64, {}), "resnest14d": (64, {}),
    "ecaresnet26t": (64, {}), "resnetblur18": (64, {}), "resnetv2_18": (64, {}),
    "eva02_tiny_patch14_224": (28, {"img_size": 28, "embed_dim": 48, "depth": 2}), "efficientformer_l1": (224, {}),
    "efficientformerv2_s0": (224, {}), "edgenext_xx_small": (64, {}), "mobilevit_xxs": (64, {}), "mobilevitv2_050": (64, {}),
    "crossvit_tiny_240": (240, {"embed_dim": (24, 48), "depth": [[1, 1, 0]]}),
    "convit_tiny": (32, {"img_size": 32, "patch_size": 8, "depth": 3, "local_up_to_layer": 2}),
    "visformer_tiny": (64, {"img_size": 64}), "pit_ti_224": (64, {"img_size": 64}),
    "tnt_s_patch16_224": (32, {"img_size": 32, "depth": 2, "embed_dim": 48, "num_heads_outer": 4}),
    "twins_pcpvt_small": (64, {"img_size": 64, "depths": (1, 1, 1, 1)}), "twins_svt_small": (64, {"img_size": 64, "depths": (1, 1, 1, 1)}),
    "swinv2_cr_tiny_224": (64, {"img_size": 64, "window_size": 2, "embed_dim": 24, "depths": (1, 1), "num_heads": (2, 4)}),
    "sequencer2d_s": (64, {"layers": (1, 1, 1, 1), "embed_dims": (48, 96, 96, 96), "hidden_sizes": (12, 24, 24, 24)}),
    "convnextv2_atto": (64, {}), "inception_next_atto": (64, {}), "hgnetv2_b0": (64, {}),
    "lcnet_035": (64, {}), "mobilenetv4_conv_small_035": (64, {}), "tinynet_e": (64, {}), "ese_vovnet19b_slim_dw": (64, {}),
    "cspresnet50": (64, {}), "darknet17": (64, {}), "gernet_s": (64, {}), "efficientvit_b0": (64, {}), "efficientvit_m0": (224, {}),
    "tiny_vit_5m_224": (224, {}),
    "davit_tiny": (64, {"depths": (1, 1, 1, 1), "embed_dims": (24, 48, 96, 192), "num_heads": (2, 4, 4, 4)}),
    "hiera_tiny_224": (64, {"img_size": (64, 64), "embed_dim": 24, "stages": (1, 1, 1, 1)}),
    "shvit_s1": (64, {}), "starnet_s1": (64, {}),
    "swiftformer_xs": (64, {}), "fasternet_t0": (64, {}),
    "vit_relpos_small_patch16_224": (32, {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 4}),
    "halonet26t": (256, {}), "lambda_resnet26rpt_256": (64, {"img_size": 64}), "botnet26t_256": (64, {"img_size": 64}),
    "bat_resnext26ts": (256, {}), "gcresnet33ts": (64, {}), "selecsls42b": (64, {}), "dpn48b": (64, {}), "xception41p": (64, {}),
    "cs3darknet_focus_s": (64, {}), "efficientvim_m1": (64, {}), "cspnext_tiny": (64, {}),
}
BY_CLASS = {
    "mixer": (64, lambda: mlp_mixer.MlpMixer(10, 64, patch_size=16, num_blocks=2, embed_dim=32)),
    "gmlp": (64, lambda: mlp_mixer.MlpMixer(10, 64, patch_size=16, num_blocks=2, embed_dim=32, mlp_ratio=4,
                                            block_layer=mlp_mixer.SpatialGatingBlock, mlp_layer=GatedMlp)),
    "resmlp": (64, lambda: mlp_mixer.MlpMixer(10, 64, patch_size=16, num_blocks=2, embed_dim=32, mlp_ratio=4,
                                              block_layer=mlp_mixer.ResBlock, norm_layer=mlp_mixer.Affine)),
    "convmixer": (64, lambda: convmixer.ConvMixer(32, 2, num_classes=10)),
    "caformer": (64, lambda: metaformer.MetaFormer(num_classes=10, depths=(1, 1, 1, 1), dims=(16, 32, 32, 64),
                                                   token_mixers=[metaformer.SepConv] * 2 + [metaformer.Attention] * 2,
                                                   norm_layers=[metaformer.LayerNorm2dNoBias] * 2 + [metaformer.LayerNormNoBias] * 2)),
    "nest": (32, lambda: nest.Nest(32, num_classes=10, num_levels=2, embed_dims=(24, 48), num_heads=(2, 4), depths=(1, 1))),
    "focalnet": (64, lambda: focalnet.FocalNet(num_classes=10, embed_dim=24, depths=(1, 1, 1, 1))),
    "gcvit": (128, lambda: gcvit.GlobalContextVit(num_classes=10, img_size=128, embed_dim=24, depths=(1, 1, 1, 1),
                                                 num_heads=(2, 2, 4, 4))),
    "volo": (64, lambda: volo.VOLO((1, 1, 1, 1), img_size=64, num_classes=10, embed_dims=(24, 48, 48, 48), num_heads=(2, 4, 4, 4), use_mix_token=False)),
    "mvitv2": (64, lambda: mvitv2.MultiScaleVit(mvitv2.MultiScaleVitCfg(depths=(1, 1, 1), embed_dim=(24, 48, 96), num_heads=(1, 2, 4)), (64, 64),
                                                num_classes=10)),
}
UNFUSED = ("beit_base_patch16_224", "test_maxvit", "test_vit_relpos", "vit_relpos_small_patch16_224")  # dynamo cannot take PyTorch's attention with a bias apart


def make(name, options):
    layers.set_fused_attn(name not in UNFUSED)
    try:
        return timm.create_model(name, num_classes=10, **options)
    finally:
        layers.set_fused_attn(True)


BRANCHED = ("repvgg_a0", "mobileone_s0", "fastvit_t8", "repghostnet_050", "repvit_m0_9")
RATES = {"mobileone_s0": 1e-7}  # its first gradient's norm is 1700
ROWS = [Row(f"timm_{name}", "timm", partial(make, name, options), {"x": image(size)}, calibrated=name in BRANCHED, rate=RATES.get(name, 0.01))
        for name, (size, options) in MODELS.items()] + [
    Row(f"timm_{name}", "timm", build, {"x": image(size)}) for name, (size, build) in BY_CLASS.items()]
