"""Models of transformers that see, hear and forecast, of a sixth sample, chosen before anything of it was exported."""
import transformers as t

from row import Mask, Values, image
from fourth_transformers_rows import PICTURE, STAGES, WithImage
from transformers_rows import GROUPED, MASKED, NONE, SMALL_IMAGE, STEPS, TOKENS, VISION, WAV, WHAT, WIDTH, WORDS, encoder, picture, row

ENDED = {**WHAT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEEN = {**WHAT, **SMALL_IMAGE}
HEARD = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "num_mel_bins": 16, "subsampling_conv_channels": 8,
         "conv_kernel_size": 5, "dropout": 0.0, "layerdrop": 0.0, "activation_dropout": 0.0, "attention_dropout": 0.0, "dropout_positions": 0.0}
SPECTRUM, SLICES = {"input_features": Values((16, 32))}, {"pixel_values_videos": Values((4, 3, 32, 32))}

ROWS = [
    row("owlv2", ("Owlv2Config", {"text_config": {**ENDED}, "vision_config": SEEN, "projection_dim": WIDTH}), "Owlv2ForObjectDetection",
        {"input_ids": TOKENS, "pixel_values": image(32)}, Values((16, 4)), lambda y: y.pred_boxes),
    row("rt_detr_v2", ("RTDetrV2Config", {"backbone_config": STAGES, "encoder_in_channels": [16, 32, 32], "encoder_hidden_dim": WIDTH, "decoder_in_channels": [WIDTH] * 3, "d_model": WIDTH,
                       "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_layers": 2, "num_queries": 5, "num_denoising": 0,
                       "dropout": 0.0, "num_labels": 3}), "RTDetrV2ForObjectDetection", {"pixel_values": image(64)}, Values((5, 4)), lambda y: y.pred_boxes),
    row("maskformer", ("MaskFormerConfig", {"backbone_config": t.SwinConfig(image_size=64, patch_size=4, embed_dim=12, depths=[1] * 4, num_heads=[1, 2, 2, 4], window_size=4, drop_path_rate=0.0,
                       out_features=["stage1", "stage2", "stage3", "stage4"], **NONE), "decoder_config": t.MaskFormerDetrConfig(
                           d_model=WIDTH, num_queries=5, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                           dropout=0.0), "fpn_feature_size": 32, "mask_feature_size": 16, "num_labels": 3}), "MaskFormerForInstanceSegmentation", {"pixel_values": image(64)},
        Values((5, 16, 16)), lambda y: y.masks_queries_logits),
    row("zoedepth", ("ZoeDepthConfig", {"backbone_config": t.BeitConfig(**{**VISION, "num_hidden_layers": 4, "drop_path_rate": 0.0, "use_relative_position_bias": True,
                     "out_indices": [1, 2, 3, 4], "reshape_hidden_states": False, "attn_implementation": "eager"}), "neck_hidden_sizes": [8, 16, 16, 32], "fusion_hidden_size": 16,
                     "bottleneck_features": 16, "num_attractors": [4, 2, 2, 1], "bin_embedding_dim": 8, "num_relative_features": 8, "image_size": 32,
                     "bin_configurations": [{"n_bins": 8, "min_depth": 0.001, "max_depth": 10.0, "name": "nyu"}]}), "ZoeDepthForDepthEstimation", {"pixel_values": image(32)},
        Values((64, 64)), lambda y: y.predicted_depth),
    row("sapiens2", ("Sapiens2Config", {"hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_attention_heads": 2,
                     "num_first_full_attention_layers": 1, "num_last_full_attention_layers": 0, "num_register_tokens": 2, "pos_embed_rescale": None, "num_labels": 5, **SMALL_IMAGE,
                     "head_config": {"upsample_out_channels": [16], "conv_out_channels": [16]}}), "Sapiens2ForSemanticSegmentation", {"pixel_values": image(32)},
        Values((8, 8), below=5), class_axis=1),
    encoder("radio", ("RadioConfig", {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "mlp_ratio": 2.0, "max_img_size": 64, "num_cls_tokens": 3,
                      "num_registers": 3, **SMALL_IMAGE}), "RadioModel", {"pixel_values": image(32)}, Values((22, WIDTH))),
    row("x_clip", ("XCLIPConfig", {"text_config": ENDED, "vision_config": {**SEEN, "num_frames": 4, "mit_hidden_size": WIDTH, "mit_intermediate_size": 64, "mit_num_attention_heads": 4},
                   "projection_dim": WIDTH, "prompt_num_attention_heads": 4}), "XCLIPModel", {"input_ids": TOKENS, "pixel_values": Values((4, 3, 32, 32))}, Values((WIDTH,)),
        lambda y: y.video_embeds),
    row("timesfm", ("TimesFmConfig", {"patch_length": 4, "context_length": 16, "horizon_length": 4, "num_hidden_layers": 2, "hidden_size": WIDTH, "intermediate_size": 64, "head_dim": 8,
                    "num_attention_heads": 4, "quantiles": [0.1, 0.5, 0.9]}), "TimesFmModel", {"past_values": Values((16,)), "past_values_padding": Mask((16,), below=2),
                    "freq": Values((1,), below=3)}, Values((4, WIDTH)), lambda y: y.last_hidden_state),
    row("clvp_encoder", ("ClvpEncoderConfig", {**WHAT, "hidden_size": 64, "num_attention_heads": 2, "projection_dim": 16, "dropout": 0.0, "attention_dropout": 0.0}), "ClvpEncoder", {"input_ids": TOKENS}, Values((16,)), lambda y: y[0]),
    row("videoprism", ("VideoPrismVisionConfig", {"image_size": 32, "num_frames": 4, "tubelet_size": [1, 8, 8], "hidden_size": WIDTH, "num_attention_heads": 4, "intermediate_size": 64,
                       "num_spatial_layers": 2, "num_temporal_layers": 1, "num_auxiliary_layers": 1, "num_labels": 10, **NONE}), "VideoPrismForVideoClassification", SLICES, Values((), below=10)),
    row("altclip", ("AltCLIPConfig", {"text_config": {**ENDED, **NONE, "project_dim": WIDTH}, "vision_config": SEEN, "projection_dim": 16}), "AltCLIPModel",
        {"input_ids": TOKENS, "attention_mask": MASKED["attention_mask"], "pixel_values": image(32)}, Values((16,)), lambda y: y.text_embeds * y.image_embeds),
    encoder("blip_2_qformer", ("Blip2QFormerConfig", {**WHAT, **NONE, "encoder_hidden_size": 24}), "Blip2QFormerModel", {"query_embeds": Values((5, WIDTH)),
            "encoder_hidden_states": Values((9, 24))}, Values((5, WIDTH))),
    row("flava", ("FlavaConfig", {"text_config": {**WHAT, **NONE}, "image_config": {**VISION}, "multimodal_config": {**WHAT, **NONE}, "hidden_size": WIDTH, "projection_dim": 16,
                  "init_codebook": False}), "FlavaModel", {"input_ids": TOKENS, "pixel_values": image(32)}, Values((30, WIDTH)), lambda y: y.multimodal_embeddings),
    row("paligemma", ("PaliGemmaConfig", {"text_config": {**GROUPED, "model_type": "gemma", "pad_token_id": 0}, "vision_config": {**SEEN, "model_type": "siglip_vision_model",
                      "vision_use_head": False}, "image_token_id": PICTURE, "image_token_index": PICTURE, "projection_dim": WIDTH, "hidden_size": WIDTH}),
        "PaliGemmaForConditionalGeneration", {"input_ids": WithImage((24,), below=PICTURE), "pixel_values": image(32)}, Values((24,), below=WORDS)),
    row("speecht5", ("SpeechT5Config", {"vocab_size": WORDS, "hidden_size": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
                     "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "max_text_positions": 32, "encoder_max_relative_position": 8,
                     "hidden_dropout": 0.0, "positional_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "feat_proj_dropout": 0.0,
                     **{k: WAV[k] for k in ("conv_dim", "conv_kernel", "conv_stride", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups", "mask_time_prob")}}),
        "SpeechT5ForSpeechToText", {"input_values": Values((160,)), "decoder_input_ids": TOKENS}, TOKENS),
    row("hifi_gan", ("SpeechT5HifiGanConfig", {"model_in_dim": 16, "upsample_initial_channel": 32, "upsample_rates": [2, 2], "upsample_kernel_sizes": [4, 4],
                     "resblock_kernel_sizes": [3, 5], "resblock_dilation_sizes": [[1, 3], [1, 3]]}), "SpeechT5HifiGan", {"spectrogram": Values((10, 16))}, Values((40,)), lambda y: y),
    row("lasr", ("LasrCTCConfig", {"vocab_size": 12, "pad_token_id": 11, "encoder_config": HEARD}), "LasrForCTC", {"input_features": Values((32, 16)),
        "attention_mask": Mask((32,), below=2)}, Values((5,), below=12)),
    encoder("qwen2_audio", ("Qwen2AudioEncoderConfig", {"num_mel_bins": 16, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64, "d_model": WIDTH,
                            "max_source_positions": 16}), "Qwen2AudioEncoder", SPECTRUM, Values((8, WIDTH)), options=("--freeze", "*embed_positions*")),  # requires_grad stands in no file
    row("musicgen", ("MusicgenDecoderConfig", {"vocab_size": WORDS, "max_position_embeddings": 32, "num_hidden_layers": 2, "ffn_dim": 64, "num_attention_heads": 4, "hidden_size": WIDTH,
                     "num_codebooks": 2, "dropout": 0.0, "pad_token_id": 0, "bos_token_id": 0}), "MusicgenForCausalLM", {"input_ids": Values((2, STEPS), below=WORDS)},
        Values((2, STEPS), below=WORDS), lambda y: y.logits.view(-1, 2, STEPS, WORDS)),
    picture("pp_lcnet", ("PPLCNetConfig", {"scale": 0.25, "class_expand": 64, "num_labels": 10, "hidden_dropout_prob": 0.0}), "PPLCNetForImageClassification", 64, pick=lambda y: y.last_hidden_state),
    row("autoformer", ("AutoformerConfig", {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1,
                       "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_time_features": 2, "dropout": 0.0, "label_length": 4,
                       "attention_dropout": 0.0, "activation_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "scaling": False, "moving_average": 5}),
        "AutoformerModel", {"past_values": Values((10,)), "past_time_features": Values((10, 2)), "past_observed_mask": Mask((10,), below=2), "future_values": Values((4,)),
                            "future_time_features": Values((4, 2))}, Values((4, 6)), lambda y: y.last_hidden_state[:, -4:]),
]
