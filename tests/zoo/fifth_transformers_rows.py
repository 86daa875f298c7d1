"""Architectures of transformers of a fifth sample, chosen before anything of it was run."""
import transformers as t

from row import Mask, Values, image
from transformers_rows import EXPERTS, GROUPED, MASKED, NONE, SMALL_IMAGE, STEPS, TOKENS, WHAT, WIDTH, WORDS, encoder, lm, row
from fourth_transformers_rows import STAGES

PAIR = {"input_ids": TOKENS, "decoder_input_ids": TOKENS}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
BOTH = {"d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "max_position_embeddings": 32, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, **ENDS}
DETECTOR = {"backbone_config": STAGES, "d_model": WIDTH, "num_queries": 5, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "dropout": 0.0, "num_labels": 3}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
MOE = {**GROUPED, **EXPERTS, "moe_intermediate_size": 16, "num_experts_per_tok": 2}

ROWS = [
    lm("mvp", ("MvpConfig", {**BOTH, "vocab_size": WORDS}), "MvpForConditionalGeneration", PAIR),
    lm("minicpm3", ("MiniCPM3Config", {**GROUPED, **LATENT, "num_key_value_heads": 4}), "MiniCPM3ForCausalLM"),
    lm("hrm_text", ("HrmTextConfig", GROUPED), "HrmTextForCausalLM"),
    lm("youtu", ("YoutuConfig", {**GROUPED, **LATENT, "num_key_value_heads": 4, "head_dim": 4}), "YoutuForCausalLM"),
    lm("ernie4_5_moe", ("Ernie4_5_MoeConfig", {**MOE, "moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1, "moe_layer_start_index": 1}), "Ernie4_5_MoeForCausalLM"),
    lm("glm4_moe_lite", ("Glm4MoeLiteConfig", {**MOE, **LATENT, "num_key_value_heads": 4, "first_k_dense_replace": 1, "n_routed_experts": 4, "n_group": 1, "topk_group": 1}), "Glm4MoeLiteForCausalLM"),
    lm("olmo_hybrid", ("OlmoHybridConfig", {**GROUPED, "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 2,
                       "linear_key_head_dim": 8, "linear_value_head_dim": 8}), "OlmoHybridForCausalLM"),
    encoder("jina_embeddings_v3", ("JinaEmbeddingsV3Config", {**WHAT, **NONE}), "JinaEmbeddingsV3Model"),
    row("dab_detr", ("DabDetrConfig", {**{k: v for k, v in DETECTOR.items() if k != "d_model"}, "hidden_size": WIDTH}), "DabDetrForObjectDetection", {"pixel_values": image(64)},
        Values((5, 4)), lambda y: y.pred_boxes),
    row("clap_audio", ("ClapAudioConfig", {"window_size": 4, "num_mel_bins": 16, "spec_size": 64, "patch_size": 4, "patch_stride": [4, 4], "num_classes": 4, "hidden_size": 32,
                       "patch_embeds_hidden_size": 16, "depths": [1, 1], "num_attention_heads": [2, 4], "enable_fusion": False, "num_hidden_layers": 2}),
        "ClapAudioModelWithProjection", {"input_features": Values((1, 256, 16))}, Values((512,)), lambda y: y.audio_embeds),
    row("dac", ("DacConfig", {"encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "decoder_hidden_size": 32, "n_codebooks": 2, "codebook_size": 16, "codebook_dim": 4}),
        "DacModel", {"input_values": Values((1, 64))}, Values((64,)), lambda y: y.audio_values),
    row("informer", ("InformerConfig", {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 1,
                     "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_time_features": 2, "dropout": 0.0,
                     "attention_dropout": 0.0, "activation_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "scaling": False, "attention_type": "full",
                     "distil": False}),
        "InformerModel", {"past_values": Values((10,)), "past_time_features": Values((10, 2)), "past_observed_mask": Mask((10,), below=2), "future_values": Values((4,)),
                          "future_time_features": Values((4, 2))}, Values((4, WIDTH)), lambda y: y.last_hidden_state),
    row("vitmatte", ("VitMatteConfig", {"backbone_config": t.VitDetConfig(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, image_size=32,
                     pretrain_image_size=32, patch_size=8, num_channels=4, out_features=["stage2"]), "hidden_size": WIDTH, "convstream_hidden_sizes": [8, 16],
                     "fusion_hidden_sizes": [32, 16, 8]}), "VitMatteForImageMatting", {"pixel_values": Values((4, 32, 32))}, Values((1, 32, 32)), lambda y: y.alphas),
    row("bridgetower", ("BridgeTowerConfig", {"text_config": {**WHAT, **NONE, "hidden_size": 128}, "vision_config": {"hidden_size": 128, "num_hidden_layers": 2, **SMALL_IMAGE},
                        "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "link_tower_type": "add"}), "BridgeTowerModel",
        {**MASKED, "pixel_values": image(32)}, Values((256,)), lambda y: y.pooler_output),
]
