"""Architectures of transformers of a seventh sample, chosen before anything of it was exported."""
from row import Mask, Values, image
from fifth_transformers_rows import LATENT, MOE
from transformers_rows import GROUPED, MASKED, NONE, STEPS, TEXT, TOKENS, WHAT, WIDTH, WORDS, classifier, encoder, lm, row

LINEAR = {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}

ROWS = [
    classifier("data2vec_text", ("Data2VecTextConfig", {**WHAT, **NONE}), "Data2VecTextForSequenceClassification"),
    lm("mistral4", ("Mistral4Config", {**MOE, **LATENT, "num_key_value_heads": 4, "n_routed_experts": 4, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}), "Mistral4ForCausalLM"),
    lm("aria_text", ("AriaTextConfig", {**GROUPED, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1}), "AriaTextForCausalLM"),
    lm("glm_moe_dsa", ("GlmMoeDsaConfig", {**MOE, **LATENT, "num_key_value_heads": 4, "n_routed_experts": 4, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
                       "index_topk": 4, "index_n_heads": 2, "index_head_dim": 8}), "GlmMoeDsaForCausalLM"),
    lm("bark_semantic", ("BarkSemanticConfig", {"input_vocab_size": WORDS, "output_vocab_size": WORDS, "block_size": 32, "num_layers": 2, "num_heads": 4, "hidden_size": WIDTH, "dropout": 0.0,
                         "bias": True}), "BarkSemanticModel"),
    encoder("siglip2_text", ("Siglip2TextConfig", {**WHAT, "attention_dropout": 0.0, "projection_size": WIDTH}), "Siglip2TextModel", MASKED, Values((STEPS, WIDTH))),
    encoder("aimv2_text", ("Aimv2TextConfig", {**WHAT, "attention_dropout": 0.0}), "Aimv2TextModel", TEXT, Values((STEPS, WIDTH))),
    row("seggpt", ("SegGptConfig", {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": [64, 32], "patch_size": 8, "mlp_dim": 64, "drop_path_rate": 0.0,
                   "intermediate_hidden_state_indices": [0, 1], "merge_index": 0, "decoder_hidden_size": 8, "pretrain_image_size": 32}), "SegGptForImageSegmentation",
        {"pixel_values": image(32), "prompt_pixel_values": image(32), "prompt_masks": image(32)}, Values((3, 64, 32)), lambda y: y.pred_masks),
    row("mimi", ("MimiConfig", {"hidden_size": WIDTH, "num_filters": 4, "upsampling_ratios": [2, 2], "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
                 "intermediate_size": 64, "codebook_size": 16, "codebook_dim": 8, "num_quantizers": 2, "num_semantic_quantizers": 1, "vector_quantization_hidden_dimension": 8,
                 "upsample_groups": WIDTH, "sampling_rate": 800, "frame_rate": 100.0, "sliding_window": 8}), "MimiModel", {"input_values": Values((1, 64))}, Values((1, 64)),
        lambda y: y.audio_values),
    row("timesfm_2_5", ("TimesFm2_5Config", {"patch_length": 4, "context_length": 16, "horizon_length": 4, "num_hidden_layers": 2, "hidden_size": WIDTH, "intermediate_size": 64,
                        "head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 4, "quantiles": [0.1, 0.5, 0.9], "output_quantile_len": 8}), "TimesFm2_5Model",
        {"past_values": Values((16,)), "past_values_padding": Mask((16,), below=2)}, Values((4, WIDTH)), lambda y: y.last_hidden_state),
    row("musicgen_melody_decoder", ("MusicgenMelodyDecoderConfig", {"vocab_size": WORDS - 1, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
                                    "max_position_embeddings": 32, "num_codebooks": 1, "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "layerdrop": 0.0,
                                    "pad_token_id": 0, "bos_token_id": 1}), "MusicgenMelodyForCausalLM", {"input_ids": Values((STEPS,), below=WORDS - 1)}, Values((STEPS,), below=WORDS - 1)),
    lm("hyv3", ("HYV3Config", {**MOE, "num_experts": 4, "num_shared_experts": 1, "mlp_layer_types": ["dense", "sparse"]}), "HYV3ForCausalLM"),
    lm("axk1", ("AXK1Config", {**MOE, **LATENT, "num_key_value_heads": 4, "head_dim": 4, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
                "mlp_layer_types": ["dense", "sparse"]}), "AXK1ForCausalLM"),
    lm("lara_mini", ("LaraMiniConfig", {**MOE, **LINEAR, "num_experts": 4, "shared_expert_intermediate_size": 16, "sliding_window": 8}), "LaraMiniForCausalLM"),
    lm("kolibri1", ("Kolibri1Config", {**MOE, "num_local_experts": 4, "shared_expert_intermediate_size": 16, "sliding_window": 8,
                    "layer_types": ["sliding_attention", "full_attention"]}), "Kolibri1ForCausalLM"),
    lm("qwen3_5_moe_text", ("Qwen3_5MoeTextConfig", {**MOE, **LINEAR, "num_experts": 4, "shared_expert_intermediate_size": 16}), "Qwen3_5MoeForCausalLM"),
]
