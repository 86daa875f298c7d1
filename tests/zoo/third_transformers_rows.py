"""Architectures of transformers of a third sample, chosen before anything of it was run."""
import transformers as t

from row import Values, image
from transformers_rows import (BART, EXPERTS, GROUPED, MASKED, NONE, SMALL_IMAGE, STEPS, TEXT, TOKENS, VISION, WHAT, WIDTH, WORDS,
                               classifier, encoder, lm, picture, row)

BOTH = {"input_ids": TOKENS, "decoder_input_ids": TOKENS}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MOE = {**GROUPED, **EXPERTS, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
ROUTED = {**MOE, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}
SIDE = {**GROUPED, **ENDS, "sliding_window": 4, "query_pre_attn_scalar": 8}
CHOICES = Values((3, STEPS), below=WORDS)
TEXTS = [
    row("bert_choice", ("BertConfig", {**WHAT, **NONE}), "BertForMultipleChoice", {"input_ids": CHOICES}, Values((), below=3)),
    row("roberta_tokens", ("RobertaConfig", {**WHAT, **NONE, "num_labels": 5}), "RobertaForTokenClassification", MASKED, Values((STEPS,), below=5)),
    row("distilbert_answer", ("DistilBertConfig", {"vocab_size": WORDS, "dim": WIDTH, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "dropout": 0.0, "attention_dropout": 0.0, "qa_dropout": 0.0,
                              "max_position_embeddings": 32}), "DistilBertForQuestionAnswering", MASKED, Values((), below=STEPS), lambda y: y.start_logits),
    lm("bert_generation", ("BertGenerationConfig", {**WHAT, **NONE, "is_decoder": True}), "BertGenerationDecoder"),
    classifier("camembert", ("CamembertConfig", {**WHAT, **NONE}), "CamembertForSequenceClassification"),
    row("dpr", ("DPRConfig", {**WHAT, **NONE, "projection_dim": 8}), "DPRQuestionEncoder", MASKED, Values((8,)), lambda y: y.pooler_output),
    encoder("layoutlmv3", ("LayoutLMv3Config", {**WHAT, **NONE, "coordinate_size": 6, "shape_size": 4, "input_size": 32, "patch_size": 8, "max_2d_position_embeddings": 32}), "LayoutLMv3Model",
            {"input_ids": TOKENS, "bbox": Values((STEPS, 4), below=1), "pixel_values": image(32)}, Values((STEPS + 17, WIDTH))),
    row("lxmert", ("LxmertConfig", {**WHAT, **NONE, "l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 8}), "LxmertModel",
        {"input_ids": TOKENS, "visual_feats": Values((3, 8)), "visual_pos": Values((3, 4))}, Values((WIDTH,)), lambda y: y.pooled_output),
    row("gpt2_classes", ("GPT2Config", {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 32, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
                        "pad_token_id": 0, "num_labels": 5}), "GPT2ForTokenClassification", TEXT, Values((STEPS,), below=5)),
    lm("gpt_neox_japanese", ("GPTNeoXJapaneseConfig", {**WHAT, "intermediate_multiple_size": 2, "hidden_dropout": 0.0, "attention_dropout": 0.0}), "GPTNeoXJapaneseForCausalLM"),
    lm("jetmoe", ("JetMoeConfig", {**MOE, "kv_channels": 8}), "JetMoeForCausalLM"),
    lm("dbrx", ("DbrxConfig", {"vocab_size": WORDS, "d_model": WIDTH, "n_heads": 4, "n_layers": 2, "max_seq_len": 32, "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
                "ffn_config": {"hidden_size": WIDTH, "ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}, **EXPERTS}), "DbrxForCausalLM"),
    lm("recurrent_gemma", ("RecurrentGemmaConfig", {**GROUPED, "attention_window_size": 8, "lru_width": WIDTH, "block_types": ["recurrent", "attention"]}), "RecurrentGemmaForCausalLM"),
    lm("phimoe", ("PhimoeConfig", {**MOE, "router_jitter_noise": 0.0}), "PhimoeForCausalLM"),
    lm("granitemoeshared", ("GraniteMoeSharedConfig", {**MOE, "shared_intermediate_size": 32}), "GraniteMoeSharedForCausalLM"),
    lm("dots1", ("Dots1Config", ROUTED), "Dots1ForCausalLM"),
    lm("glm4_moe", ("Glm4MoeConfig", ROUTED), "Glm4MoeForCausalLM"),
    lm("hunyuan_v1_moe", ("HunYuanMoEV1Config", {**MOE, "moe_topk": 2, "pad_token_id": 0}), "HunYuanMoEV1ForCausalLM"),
    lm("lfm2_moe", ("Lfm2MoeConfig", {**MOE, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"]}), "Lfm2MoeForCausalLM"),
    lm("flex_olmo", ("FlexOlmoConfig", MOE), "FlexOlmoForCausalLM"),
    lm("vaultgemma", ("VaultGemmaConfig", {**GROUPED, "sliding_window": 4, "query_pre_attn_scalar": 8}), "VaultGemmaForCausalLM"),
    lm("cpmant", ("CpmAntConfig", {"vocab_size": WORDS, "hidden_size": WIDTH, "num_attention_heads": 4, "dim_head": 8, "dim_ff": 64, "num_hidden_layers": 2, "prompt_length": 4,
                  "position_bias_num_buckets": 16, "position_bias_max_distance": 32}), "CpmAntForCausalLM"),
    lm("blenderbot_small", ("BlenderbotSmallConfig", {**BART, **ENDS}), "BlenderbotSmallForConditionalGeneration", BOTH),
    lm("electra_generator", ("ElectraConfig", {**WHAT, **NONE, "embedding_size": 16}), "ElectraForMaskedLM", MASKED),
    lm("t5gemma", ("T5GemmaConfig", {"encoder": SIDE, "decoder": SIDE,
                   "vocab_size": WORDS, **ENDS}), "T5GemmaForConditionalGeneration", BOTH),
]
RESNET = t.ResNetConfig(hidden_sizes=[16, 32], depths=[1, 1], embedding_size=16, out_features=["stage2"])
LEVELS = t.ResNetConfig(hidden_sizes=[8, 16, 32, 32], depths=[1] * 4, embedding_size=8, out_features=["stage2", "stage3", "stage4"])
DETECTOR = {"backbone_config": RESNET, "d_model": WIDTH, "num_queries": 5, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "dropout": 0.0, "num_labels": 3}
WORDS_OF_CLIP = {**WHAT, "eos_token_id": WORDS - 1, "bos_token_id": 1, "pad_token_id": 0}
TWO_SIDES = {"input_ids": TOKENS, "pixel_values": image(32)}


def boxes(y):
    return y.pred_boxes


def both(y):
    return y.image_embeds + y.text_embeds


PICTURES = [
    row("detr", ("DetrConfig", DETECTOR), "DetrForObjectDetection", {"pixel_values": image(32)}, Values((5, 4)), boxes),
    row("conditional_detr", ("ConditionalDetrConfig", DETECTOR), "ConditionalDetrForObjectDetection", {"pixel_values": image(32)}, Values((5, 4)), boxes),
    row("table_transformer", ("TableTransformerConfig", DETECTOR), "TableTransformerForObjectDetection", {"pixel_values": image(32)}, Values((5, 4)), boxes),
    row("rt_detr", ("RTDetrConfig", {"backbone_config": t.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32, 32], depths=[1] * 4, layer_type="basic",
                    out_features=["stage2", "stage3", "stage4"]), "encoder_hidden_dim": WIDTH, "encoder_in_channels": [16, 32, 32], "encoder_ffn_dim": 64, "encoder_attention_heads": 4,
                    "d_model": WIDTH, "num_queries": 5, "decoder_in_channels": [WIDTH] * 3, "decoder_ffn_dim": 64, "decoder_layers": 1, "decoder_attention_heads": 4, "num_denoising": 0,
                    "hidden_expansion": 0.5, "num_labels": 3}), "RTDetrForObjectDetection", {"pixel_values": image(64)}, Values((5, 4)), boxes),
    row("upernet", ("UperNetConfig", {"backbone_config": t.ConvNextConfig(num_stages=4, hidden_sizes=[8, 8, 16, 16], depths=[1] * 4, out_features=["stage1", "stage2", "stage3", "stage4"]),
                    "hidden_size": 16, "use_auxiliary_head": False, "num_labels": 5}), "UperNetForSemanticSegmentation", {"pixel_values": image(64)}, Values((64, 64), below=5), class_axis=1),
    row("clipseg", ("CLIPSegConfig", {"text_config": WORDS_OF_CLIP, "vision_config": {**WHAT, **SMALL_IMAGE}, "projection_dim": 16, "extract_layers": [0, 1], "reduce_dim": 16,
                    "decoder_intermediate_size": 32}), "CLIPSegForImageSegmentation", TWO_SIDES, Values((32, 32))),
    row("groupvit", ("GroupViTConfig", {"text_config": WORDS_OF_CLIP, "vision_config": {**WHAT, **SMALL_IMAGE, "depths": [1, 1], "num_group_tokens": [6, 0], "num_output_groups": [6, 6],
                     "num_hidden_layers": 2, "hidden_size": WIDTH}, "projection_dim": 16, "projection_intermediate_dim": 32}), "GroupViTModel", TWO_SIDES, Values((16,)), both),
    row("chinese_clip", ("ChineseCLIPConfig", {"text_config": {**WHAT, **NONE}, "vision_config": {**WHAT, **SMALL_IMAGE}, "projection_dim": 16}), "ChineseCLIPModel", TWO_SIDES, Values((16,)),
        both),
    row("align", ("AlignConfig", {"text_config": {**WHAT, **NONE}, "vision_config": {"image_size": 64, "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320, "out_channels": [16, 24, 40, 80, 112, 192, 64],
                  "drop_connect_rate": 0.0}, "projection_dim": 16}), "AlignModel", {"input_ids": TOKENS, "pixel_values": image(64)}, Values((16,)), both),
    row("blip", ("BlipConfig", {"text_config": {**WHAT, "encoder_hidden_size": WIDTH, "projection_dim": 16, "bos_token_id": 1, "sep_token_id": 2}, "vision_config": {**WHAT, **SMALL_IMAGE},
                 "projection_dim": 16, "image_text_hidden_size": 16}), "BlipForImageTextRetrieval", TWO_SIDES, Values((), below=2), lambda y: y.itm_score),
    row("metaclip_2", ("MetaClip2Config", {"text_config": WORDS_OF_CLIP, "vision_config": {**WHAT, **SMALL_IMAGE}, "projection_dim": 16}), "MetaClip2Model", TWO_SIDES, Values((16,)), both),
    row("siglip", ("SiglipConfig", {"vision_config": {**WHAT, **SMALL_IMAGE}, "text_config": {**WHAT, "projection_size": WIDTH}}), "SiglipModel", TWO_SIDES, Values((WIDTH,)), both),
    encoder("mlcd", ("MLCDVisionConfig", {**WHAT, **SMALL_IMAGE}), "MLCDVisionModel", {"pixel_values": image(32)}, Values((17, WIDTH))),
    row("depth_anything", ("DepthAnythingConfig", {"backbone_config": t.Dinov2Config(**{**VISION, "num_hidden_layers": 4, "image_size": 32, "patch_size": 8}, out_indices=[1, 2, 3, 4],
                           reshape_hidden_states=False, apply_layernorm=True), "patch_size": 8, "reassemble_hidden_size": WIDTH, "neck_hidden_sizes": [8, 8, 16, 16],
                           "fusion_hidden_size": 16}), "DepthAnythingForDepthEstimation", {"pixel_values": image(32)}, Values((32, 32)), lambda y: y.predicted_depth),
    row("mgp_str", ("MgpstrConfig", {"image_size": [16, 32], "patch_size": 8, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "max_token_length": 5,
                    "num_character_labels": 12, "num_bpe_labels": 9, "num_wordpiece_labels": 9, "mlp_ratio": 2}), "MgpstrForSceneTextRecognition", {"pixel_values": Values((3, 16, 32))},
        Values((5,), below=12), lambda y: y.logits[0]),
    lm("trocr", ("TrOCRConfig", {"vocab_size": WORDS, "d_model": WIDTH, "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "max_position_embeddings": 32, "dropout": 0.0,
                 **ENDS}), "TrOCRForCausalLM"),
    encoder("aimv2_vision", ("Aimv2VisionConfig", {**WHAT, **SMALL_IMAGE}), "Aimv2VisionModel", {"pixel_values": image(32)}, Values((16, WIDTH))),
]
SERIES = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 2, "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
          "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
PAST = {"past_values": Values((10,)), "past_time_features": Values((10, 2)), "past_observed_mask": Values((10,), below=2), "future_values": Values((4,)), "future_time_features": Values((4, 2))}
SPEECH = {"d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
          "dropout": 0.0}
SOUNDS = [
    row("whisper", ("WhisperConfig", {**SPEECH, "vocab_size": WORDS, "num_mel_bins": 16, "max_source_positions": 16, "max_target_positions": 16, **ENDS, "decoder_start_token_id": 1}),
        "WhisperForConditionalGeneration", {"input_features": Values((16, 32)), "decoder_input_ids": TOKENS}, TOKENS),
    encoder("time_series_transformer", ("TimeSeriesTransformerConfig", SERIES), "TimeSeriesTransformerModel", PAST, Values((4, WIDTH))),
    row("encodec", ("EncodecConfig", {"hidden_size": 8, "num_filters": 4, "upsampling_ratios": [4, 2], "num_lstm_layers": 1, "codebook_size": 16, "target_bandwidths": [24.0]}), "EncodecModel",
        {"input_values": Values((1, 64))}, Values((1, 64)), lambda y: y.audio_values),
    row("univnet", ("UnivNetConfig", {"model_in_channels": 8, "model_hidden_channels": 4, "num_mel_bins": 8, "resblock_kernel_sizes": [3], "resblock_stride_sizes": [4],
                    "resblock_dilation_sizes": [[1, 3]], "kernel_predictor_num_blocks": 1, "kernel_predictor_hidden_channels": 8}), "UnivNetModel",
        {"input_features": Values((6, 8)), "noise_sequence": Values((6, 8))}, Values((24,)), lambda y: y.waveforms),
]
ROWS = TEXTS + PICTURES + SOUNDS
