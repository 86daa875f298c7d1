"""Architectures of transformers of a fourth sample, chosen before anything of it was run."""
import torch
import transformers as t

from row import Mask, Values, image
from transformers_rows import EXPERTS, GROUPED, MASKED, NONE, SMALL_IMAGE, STEPS, TEXT, TOKENS, WHAT, WIDTH, WORDS, classifier, encoder, lm, row

ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MOE = {**GROUPED, **EXPERTS, "num_local_experts": 4, "num_experts_per_tok": 2}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_n_groups": 2, "mamba_chunk_size": 4}
STAGES = t.ResNetConfig(hidden_sizes=[8, 16, 32, 32], depths=[1] * 4, embedding_size=8, out_features=["stage2", "stage3", "stage4"])
PICTURE = WORDS - 1  # the word in whose place the image's patches stand


class Patches(Values):
    """Pixels of patches behind the row and the column of each."""

    def draw(self, batch, generator):
        patches = super().draw(batch, generator)
        patches[..., :2] = torch.stack([torch.arange(self.shape[0]) // 4, torch.arange(self.shape[0]) % 4], -1) + 1
        return patches


class WithImage(Values):
    """A line of words that begins with the places of an image of 16 patches."""

    def draw(self, batch, generator):
        words = super().draw(batch, generator)
        words[:, :16] = PICTURE
        return words


ROWS = [
    classifier("markuplm", ("MarkupLMConfig", {**WHAT, **NONE, "max_depth": 4, "xpath_unit_hidden_size": 8, "max_xpath_tag_unit_embeddings": 16, "max_xpath_subs_unit_embeddings": 16,
                            "tag_pad_id": 15, "subs_pad_id": 15}), "MarkupLMForSequenceClassification",
               {**MASKED, "xpath_tags_seq": Values((STEPS, 4), below=15), "xpath_subs_seq": Values((STEPS, 4), below=15)}),
    row("owlvit", ("OwlViTConfig", {"text_config": {**WHAT, **ENDS}, "vision_config": {**WHAT, **SMALL_IMAGE}, "projection_dim": WIDTH}), "OwlViTForObjectDetection",
        {"input_ids": TOKENS, "pixel_values": image(32)}, Values((16, 4)), lambda y: y.pred_boxes),
    row("vjepa2", ("VJEPA2Config", {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "crop_size": 32, "patch_size": 8, "frames_per_clip": 4, "tubelet_size": 2,
                   "mlp_ratio": 2.0, "num_pooler_layers": 1, "num_labels": 10, "pred_hidden_size": WIDTH, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 4}),
        "VJEPA2ForVideoClassification", {"pixel_values_videos": Values((4, 3, 32, 32))}, Values((), below=10)),
    lm("nanochat", ("NanoChatConfig", GROUPED), "NanoChatForCausalLM"),
    lm("nemotron_h", ("NemotronHConfig", {**GROUPED, "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 4, "n_groups": 2, "chunk_size": 4,
                      "layers_block_type": ["mamba", "attention"]}), "NemotronHForCausalLM"),
    lm("granitemoehybrid", ("GraniteMoeHybridConfig", {**MOE, **MAMBA, "shared_intermediate_size": 32, "layer_types": ["mamba", "attention"]}), "GraniteMoeHybridForCausalLM"),
    lm("minimax_m2", ("MiniMaxM2Config", {**MOE, "rotary_dim": 4}), "MiniMaxM2ForCausalLM"),
    row("llava", ("LlavaConfig", {"text_config": t.LlamaConfig(**GROUPED), "vision_config": t.CLIPVisionConfig(**{**WHAT, **SMALL_IMAGE}), "image_token_id": PICTURE,
                  "vision_feature_layer": -1, "image_seq_length": 16}), "LlavaForConditionalGeneration",
        {"input_ids": WithImage((24,), below=PICTURE), "pixel_values": image(32)}, Values((24,), below=WORDS)),
    row("deformable_detr", ("DeformableDetrConfig", {"backbone_config": STAGES, "d_model": WIDTH, "num_queries": 5, "encoder_layers": 1, "decoder_layers": 2,
                            "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "dropout": 0.0, "num_feature_levels": 3,
                            "num_labels": 3}), "DeformableDetrForObjectDetection", {"pixel_values": image(64)}, Values((5, 4)), lambda y: y.pred_boxes),
    row("vitpose", ("VitPoseConfig", {"backbone_config": t.VitPoseBackboneConfig(image_size=[32, 32], patch_size=[8, 8], hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
                                                                                 out_indices=[2]), "num_labels": 5}), "VitPoseForPoseEstimation", {"pixel_values": image(32)},
        Values((5, 16, 16)), lambda y: y.heatmaps),
    encoder("pix2struct_vision", ("Pix2StructVisionConfig", {"hidden_size": WIDTH, "patch_embed_hidden_size": 24, "d_ff": 64, "d_kv": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
                                  "seq_len": 64, "dropout_rate": 0.0, "attention_dropout": 0.0}), "Pix2StructVisionModel", {"flattened_patches": Patches((12, 26))},
            Values((12, WIDTH))),
    row("parakeet", ("ParakeetCTCConfig", {"vocab_size": 12, "pad_token_id": 11, "encoder_config": {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
                     "intermediate_size": 64, "num_mel_bins": 16, "subsampling_conv_channels": 8, "dropout": 0.0, "layerdrop": 0.0, "activation_dropout": 0.0, "attention_dropout": 0.0,
                     "dropout_positions": 0.0, "conv_kernel_size": 5}}), "ParakeetForCTC", {"input_features": Values((32, 16)), "attention_mask": Mask((32,), below=2)}, Values((4,), below=12)),
    lm("ministral", ("MinistralConfig", {**GROUPED, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}), "MinistralForCausalLM", TEXT),
]
