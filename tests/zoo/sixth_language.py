"""Language models of transformers of a sixth sample, chosen before anything of it was exported."""
from fifth_transformers_rows import BOTH, LATENT, PAIR
from transformers_rows import EXPERTS, GROUPED, MASKED, NONE, WHAT, WORDS, classifier, lm

MOE = {**GROUPED, **EXPERTS, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
DEEP = {**MOE, **LATENT, "num_key_value_heads": 4}
SLIDING = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
SPARSE = {"mlp_layer_types": ["dense", "sparse"]}
LINEAR = {"linear_conv_kernel_dim": 3, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
          "layer_types": ["linear_attention", "full_attention"]}

ROWS = [
    lm("afmoe", ("AfmoeConfig", {**MOE, **SLIDING, "num_experts": 4, "num_shared_experts": 1}), "AfmoeForCausalLM"),
    lm("cwm", ("CwmConfig", {**GROUPED, **SLIDING}), "CwmForCausalLM"),
    lm("exaone_moe", ("ExaoneMoeConfig", {**MOE, **SLIDING, **SPARSE, "num_experts": 4}), "ExaoneMoeForCausalLM"),
    lm("granite_swa", ("GraniteSWAConfig", {**GROUPED, **SLIDING}), "GraniteSWAForCausalLM"),
    lm("jais2", ("Jais2Config", GROUPED), "Jais2ForCausalLM"),
    lm("kimi_linear", ("KimiLinearConfig", {**DEEP, **SPARSE, "q_lora_rank": None, "num_local_experts": 4, "pad_token_id": 0, "linear_head_dim": 8, "linear_num_heads": 4,
                       "layer_types": ["linear_attention", "full_attention"]}), "KimiLinearForCausalLM"),
    lm("laguna", ("LagunaConfig", {**MOE, **SLIDING, **SPARSE, "num_experts": 4, "shared_expert_intermediate_size": 16}), "LagunaForCausalLM"),
    lm("longcat_flash", ("LongcatFlashConfig", {**{k: v for k, v in DEEP.items() if k not in ("num_hidden_layers", "intermediate_size")}, "num_layers": 1, "head_dim": 4,
                         "ffn_hidden_size": 64, "expert_ffn_hidden_size": 16, "moe_topk": 2, "n_routed_experts": 4, "zero_expert_num": 2}), "LongcatFlashForCausalLM"),
    lm("mimo_v2_flash", ("MiMoV2FlashConfig", {**MOE, **SLIDING, **SPARSE, "n_routed_experts": 4, "v_head_dim": 8}), "MiMoV2FlashForCausalLM"),
    lm("ministral3", ("Ministral3Config", GROUPED), "Ministral3ForCausalLM"),
    lm("mellum", ("MellumConfig", {**MOE, **SLIDING, **SPARSE, "num_experts": 4}), "MellumForCausalLM", MASKED),
    lm("qwen3_5_text", ("Qwen3_5TextConfig", {**GROUPED, **LINEAR}), "Qwen3_5ForCausalLM"),
    lm("solar_open", ("SolarOpenConfig", {**MOE, "n_routed_experts": 4}), "SolarOpenForCausalLM"),
    lm("zamba2", ("Zamba2Config", {**WHAT, "layers_block_type": ["mamba", "hybrid"], "mamba_d_state": 4, "mamba_ngroups": 2, "n_mamba_heads": 8, "chunk_size": 4,
                  "adapter_rank": 4, "use_mem_rope": True, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}), "Zamba2ForCausalLM"),
    lm("gemma3n_text", ("Gemma3nTextConfig", {**GROUPED, **SLIDING, "pad_token_id": 0, "vocab_size_per_layer_input": WORDS, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0,
                        "laurel_rank": 4, "activation_sparsity_pattern": [0.5, 0.0], "intermediate_size": [64, 64]}), "Gemma3nForCausalLM"),
    lm("gemma4_text", ("Gemma4TextConfig", {**GROUPED, **SLIDING, "pad_token_id": 0, "vocab_size_per_layer_input": WORDS, "hidden_size_per_layer_input": 8, "global_head_dim": 8}),
       "Gemma4ForCausalLM"),
    lm("llama4_text", ("Llama4TextConfig", {**GROUPED, **EXPERTS, "intermediate_size_mlp": 64, "num_local_experts": 4, "moe_layers": [1], "attention_chunk_size": 4,
                       "layer_types": ["chunked_attention", "full_attention"], "no_rope_layers": [1, 0]}), "Llama4ForCausalLM"),
    classifier("gte", ("GteConfig", {**WHAT, **NONE, "pad_token_id": 0}), "GteForSequenceClassification"),
    lm("esmc", ("EsmcConfig", {**WHAT, "pad_token_id": 0}), "EsmcForMaskedLM", MASKED),
    lm("nllb_moe", ("NllbMoeConfig", {**BOTH, **EXPERTS, "vocab_size": WORDS, "num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2, "router_jitter_noise": 0.0,
                    "moe_token_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}), "NllbMoeForConditionalGeneration", PAIR),
]
