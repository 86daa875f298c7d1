"""Architectures of transformers, with a few narrow layers each."""
from functools import partial

import transformers as t
from torch import nn

from row import Mask, Only, Row, Uniform, Values, image

WORDS, STEPS, WIDTH = 97, 12, 32
TOKENS = Values((STEPS,), below=WORDS)
MASK = Mask((STEPS,), below=2)
TEXT, MASKED = {"input_ids": TOKENS}, {"input_ids": TOKENS, "attention_mask": MASK}
FEATURES = Values((STEPS, WIDTH))

WHAT = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
        "max_position_embeddings": 32}
# What dynamo cannot take apart: attention by PyTorch's function with a bias, and experts by a function of transformers' own.
EAGER, EXPERTS = {"attn_implementation": "eager"}, {"experts_implementation": "batched_mm"}
NONE = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GROUPED = {**WHAT, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}
SMALL_IMAGE = {"image_size": 32, "patch_size": 8}


def call(make, pick, inputs):
    """A model of transformers that takes `inputs` by name and gives one tensor."""
    def build():
        model = make()
        model.config.return_dict = True
        for name in ("use_cache", "output_attentions", "output_hidden_states"):
            if hasattr(model.config, name):
                setattr(model.config, name, False)
        return Only(model, pick, list(inputs))
    return build


def logits(y):
    return y.logits


def hidden(y):
    return y.last_hidden_state


def row(name, config, model, inputs, labels, pick=logits, **options):
    build = call(lambda: getattr(t, model)(getattr(t, config[0])(**config[1])), pick, inputs)
    return Row(f"hf_{name}", "transformers", build, inputs, labels, **options)


def lm(name, config, model, inputs=TEXT, **options):
    return row(name, config, model, inputs, TOKENS, **options)


def classifier(name, config, model, inputs=MASKED, **options):
    return row(name, config, model, inputs, Values((), below=2), **options)


def encoder(name, config, model, inputs=TEXT, labels=FEATURES, **options):
    return row(name, config, model, inputs, labels, hidden, **options)


def picture(name, config, model, size=32, **options):
    return row(name, config, model, {"pixel_values": image(size)}, Values((), below=10), **options)


def seconds(n):
    return {"input_values": Values((n,))}


GPT = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 32, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
       "bos_token_id": 1, "eos_token_id": 2}
BART = {"vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 32, "dropout": 0.0, "attention_dropout": 0.0,
        "activation_dropout": 0.0}
T5 = {"vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0, **EAGER}
WAV = {"vocab_size": 32, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
       "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8,
       "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "mask_feature_prob": 0.0, "layerdrop": 0.0, "hidden_dropout": 0.0,
       "attention_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0, "activation_dropout": 0.0}
TEXTS = [
    classifier("bert", ("BertConfig", {**WHAT, **NONE}), "BertForSequenceClassification",
               {"input_ids": TOKENS, "attention_mask": MASK, "token_type_ids": Values((STEPS,), below=2)}),
    lm("bert_mlm", ("BertConfig", {**WHAT, **NONE}), "BertForMaskedLM"),
    classifier("albert", ("AlbertConfig", {**WHAT, **NONE, "embedding_size": 16}), "AlbertForSequenceClassification"),
    classifier("roberta", ("RobertaConfig", {**WHAT, **NONE}), "RobertaForSequenceClassification"),
    lm("xlm_roberta_mlm", ("XLMRobertaConfig", {**WHAT, **NONE}), "XLMRobertaForMaskedLM", MASKED),
    classifier("distilbert", ("DistilBertConfig", {"vocab_size": WORDS, "dim": WIDTH, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "dropout": 0.0,
                              "attention_dropout": 0.0, "seq_classif_dropout": 0.0, "max_position_embeddings": 32}),
               "DistilBertForSequenceClassification"),
    classifier("electra", ("ElectraConfig", {**WHAT, **NONE, "embedding_size": 16}), "ElectraForSequenceClassification"),
    classifier("deberta", ("DebertaConfig", {**WHAT, **NONE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
               "DebertaForSequenceClassification"),
    classifier("deberta_v2", ("DebertaV2Config", {**WHAT, **NONE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
               "DebertaV2ForSequenceClassification"),
    classifier("mobilebert", ("MobileBertConfig", {**WHAT, **NONE, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
               "MobileBertForSequenceClassification"),
    classifier("squeezebert", ("SqueezeBertConfig", {**WHAT, **NONE, "embedding_size": WIDTH}), "SqueezeBertForSequenceClassification"),
    classifier("mpnet", ("MPNetConfig", {**WHAT, **NONE}), "MPNetForSequenceClassification"),
    classifier("convbert", ("ConvBertConfig", {**WHAT, **NONE, "embedding_size": 16}), "ConvBertForSequenceClassification"),
    lm("fnet", ("FNetConfig", {**WHAT, "hidden_dropout_prob": 0.0}), "FNetForMaskedLM"),
    classifier("nystromformer", ("NystromformerConfig", {**WHAT, **NONE, "num_landmarks": 4, "segment_means_seq_len": STEPS}),
               "NystromformerForSequenceClassification", TEXT),
    classifier("roformer", ("RoFormerConfig", {**WHAT, **NONE, "embedding_size": WIDTH}), "RoFormerForSequenceClassification"),
    classifier("modernbert", ("ModernBertConfig", {**WHAT, "pad_token_id": 0, "attn_implementation": "sdpa", "local_attention": 8}),
               "ModernBertForSequenceClassification"),
    classifier("xlnet", ("XLNetConfig", {"vocab_size": WORDS, "d_model": WIDTH, "n_layer": 2, "n_head": 4, "d_inner": 64, "dropout": 0.0,
                         "summary_last_dropout": 0.0}), "XLNetForSequenceClassification"),
    classifier("funnel", ("FunnelConfig", {"vocab_size": WORDS, "d_model": WIDTH, "n_head": 4, "d_head": 8, "d_inner": 64, "block_sizes": [1, 1],
                          "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}), "FunnelForSequenceClassification"),
    classifier("longformer", ("LongformerConfig", {**WHAT, **NONE, "attention_window": 4}), "LongformerForSequenceClassification"),
    classifier("flaubert", ("FlaubertConfig", {"vocab_size": WORDS, "emb_dim": WIDTH, "n_layers": 2, "n_heads": 4, "dropout": 0.0,
                            "attention_dropout": 0.0, "max_position_embeddings": 32, "summary_first_dropout": 0.0}),
               "FlaubertForSequenceClassification"),
    lm("bart", ("BartConfig", BART), "BartForConditionalGeneration", {"input_ids": TOKENS, "decoder_input_ids": TOKENS}),
    lm("pegasus", ("PegasusConfig", BART), "PegasusForConditionalGeneration", {"input_ids": TOKENS, "decoder_input_ids": TOKENS}),
    encoder("t5_encoder", ("T5Config", T5), "T5EncoderModel"),
    lm("t5", ("T5Config", T5), "T5ForConditionalGeneration", {"input_ids": TOKENS, "decoder_input_ids": TOKENS}),
    encoder("mt5_encoder", ("MT5Config", T5), "MT5EncoderModel", MASKED),
    lm("gpt2", ("GPT2Config", GPT), "GPT2LMHeadModel"),
    lm("gpt2_masked", ("GPT2Config", GPT), "GPT2LMHeadModel", MASKED),
    lm("gpt_neo", ("GPTNeoConfig", {"vocab_size": WORDS, "hidden_size": WIDTH, "num_layers": 2, "num_heads": 4, "intermediate_size": 64,
                   "max_position_embeddings": 32, "attention_types": [[["global", "local"], 1]], "window_size": 4}), "GPTNeoForCausalLM"),
    lm("gptj", ("GPTJConfig", {**GPT, "rotary_dim": 4}), "GPTJForCausalLM"),
    lm("gpt_neox", ("GPTNeoXConfig", WHAT), "GPTNeoXForCausalLM"),
    lm("opt", ("OPTConfig", {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "ffn_dim": 64, "num_attention_heads": 4,
               "max_position_embeddings": 32, "dropout": 0.0, "word_embed_proj_dim": WIDTH}), "OPTForCausalLM"),
    lm("bloom", ("BloomConfig", {"vocab_size": WORDS, "hidden_size": WIDTH, "n_layer": 2, "n_head": 4}), "BloomForCausalLM"),
    lm("codegen", ("CodeGenConfig", {**GPT, "rotary_dim": 4}), "CodeGenForCausalLM"),
    lm("llama", ("LlamaConfig", GROUPED), "LlamaForCausalLM"),
    lm("llama_masked", ("LlamaConfig", GROUPED), "LlamaForCausalLM", MASKED),
    lm("mistral", ("MistralConfig", {**GROUPED, "sliding_window": 4}), "MistralForCausalLM"),
    lm("qwen2", ("Qwen2Config", GROUPED), "Qwen2ForCausalLM"),
    lm("qwen3", ("Qwen3Config", GROUPED), "Qwen3ForCausalLM"),
    lm("gemma", ("GemmaConfig", GROUPED), "GemmaForCausalLM"),
    lm("gemma2", ("Gemma2Config", {**GROUPED, "sliding_window": 4}), "Gemma2ForCausalLM"),
    lm("phi", ("PhiConfig", GROUPED), "PhiForCausalLM"),
    lm("phi3", ("Phi3Config", GROUPED), "Phi3ForCausalLM"),
    lm("olmo2", ("Olmo2Config", GROUPED), "Olmo2ForCausalLM"),
    lm("cohere", ("CohereConfig", GROUPED), "CohereForCausalLM"),
    lm("falcon", ("FalconConfig", {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "new_decoder_architecture": True, "num_kv_heads": 2}), "FalconForCausalLM"),
    lm("stablelm", ("StableLmConfig", GROUPED), "StableLmForCausalLM"),
    lm("starcoder2", ("Starcoder2Config", GROUPED), "Starcoder2ForCausalLM"),
    lm("smollm3", ("SmolLM3Config", GROUPED), "SmolLM3ForCausalLM"),
    lm("granite", ("GraniteConfig", GROUPED), "GraniteForCausalLM"),
    lm("mixtral", ("MixtralConfig", {**GROUPED, **EXPERTS, "num_local_experts": 4, "num_experts_per_tok": 2}), "MixtralForCausalLM"),
    lm("qwen2_moe", ("Qwen2MoeConfig", {**GROUPED, **EXPERTS, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                     "shared_expert_intermediate_size": 32}), "Qwen2MoeForCausalLM"),
    lm("mamba", ("MambaConfig", {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 1, "state_size": 4}), "MambaForCausalLM"),
    lm("rwkv", ("RwkvConfig", {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "attention_hidden_size": WIDTH}),
       "RwkvForCausalLM"),
]
VISION = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "num_labels": 10, **SMALL_IMAGE, **NONE}
HIERARCHY = {"depths": [1, 1], "num_labels": 10}
PICTURES = [
    picture("vit", ("ViTConfig", VISION), "ViTForImageClassification"),
    picture("deit", ("DeiTConfig", VISION), "DeiTForImageClassification"),
    picture("beit", ("BeitConfig", {**VISION, **EAGER, "drop_path_rate": 0.0, "use_relative_position_bias": True}), "BeitForImageClassification"),
    picture("dinov2", ("Dinov2Config", VISION), "Dinov2ForImageClassification"),
    picture("swin", ("SwinConfig", {**EAGER, "image_size": 32, "patch_size": 4, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
                     "num_labels": 10, "drop_path_rate": 0.0, **NONE}), "SwinForImageClassification"),
    picture("swinv2", ("Swinv2Config", {"image_size": 32, "patch_size": 4, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
                       "num_labels": 10, "drop_path_rate": 0.0, **NONE}), "Swinv2ForImageClassification"),
    picture("convnext", ("ConvNextConfig", {"num_stages": 2, "hidden_sizes": [16, 32], **HIERARCHY}), "ConvNextForImageClassification"),
    picture("convnextv2", ("ConvNextV2Config", {"num_stages": 2, "hidden_sizes": [16, 32], **HIERARCHY}), "ConvNextV2ForImageClassification"),
    picture("poolformer", ("PoolFormerConfig", {"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1], "num_labels": 10, "drop_path_rate": 0.0}),
            "PoolFormerForImageClassification", 64),
    picture("mobilevit", ("MobileViTConfig", {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 48],
                          "num_labels": 10, **NONE, "classifier_dropout_prob": 0.0}), "MobileViTForImageClassification", 64),
    picture("resnet", ("ResNetConfig", {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16, "num_labels": 10}),
            "ResNetForImageClassification"),
    picture("regnet", ("RegNetConfig", {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16, "groups_width": 8, "num_labels": 10}),
            "RegNetForImageClassification"),
    picture("levit", ("LevitConfig", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1],
                      "key_dim": [8, 8, 8], "num_labels": 10, "drop_path_rate": 0}), "LevitForImageClassification", 64),
    picture("pvt", ("PvtConfig", {"image_size": 64, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32], "num_labels": 10, **NONE,
                  "num_attention_heads": [1, 2, 2, 4]}),
            "PvtForImageClassification", 64),
    picture("mobilenet_v1", ("MobileNetV1Config", {"image_size": 64, "depth_multiplier": 0.25, "num_labels": 10}),
            "MobileNetV1ForImageClassification", 64),
    row("segformer", ("SegformerConfig", {"depths": [1, 1], "num_encoder_blocks": 2, "hidden_sizes": [16, 32], "num_attention_heads": [1, 2],
                      "sr_ratios": [4, 2], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 32,
                      "num_labels": 5, "classifier_dropout_prob": 0.0, "drop_path_rate": 0.0, **NONE}), "SegformerForSemanticSegmentation",
        {"pixel_values": image(32)}, Values((8, 8), below=5), class_axis=1),
    row("dpt", ("DPTConfig", {**VISION, "backbone_out_indices": [0, 0, 1, 1], "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16,
                "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "is_hybrid": False, "use_auxiliary_head": False}),
        "DPTForDepthEstimation", {"pixel_values": image(32)}, Values((64, 64)), lambda y: y.predicted_depth),
    encoder("clip_vision", ("CLIPVisionConfig", {**WHAT, **SMALL_IMAGE}), "CLIPVisionModel", {"pixel_values": image(32)}, Values((17, WIDTH))),
    encoder("clip_text", ("CLIPTextConfig", {**WHAT, "eos_token_id": WORDS - 1, "bos_token_id": 1, "pad_token_id": 0}), "CLIPTextModel"),
    row("clip", ("CLIPConfig", {"text_config": {**WHAT, "eos_token_id": WORDS - 1, "bos_token_id": 1, "pad_token_id": 0},
                 "vision_config": {**WHAT, **SMALL_IMAGE}, "projection_dim": 16}), "CLIPModel",
        {"input_ids": TOKENS, "pixel_values": image(32)}, Values((16,)), lambda y: y.image_embeds + y.text_embeds),
    encoder("siglip_vision", ("SiglipVisionConfig", {**WHAT, **SMALL_IMAGE}), "SiglipVisionModel", {"pixel_values": image(32)}, Values((16, WIDTH))),
    row("vit_mae", ("ViTMAEConfig", {**VISION, "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2,
                      "decoder_intermediate_size": 32, "mask_ratio": 0.0}), "ViTMAEForPreTraining",
        {"pixel_values": image(32), "noise": Uniform((16,))}, Values((16, 192))),
]
SOUNDS = [
    row("whisper_encoder", ("WhisperConfig", {"vocab_size": WORDS, "num_mel_bins": 16, "encoder_layers": 2, "encoder_attention_heads": 4,
                            "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 64, "encoder_ffn_dim": 64, "d_model": WIDTH,
                            "max_source_positions": 16, "max_target_positions": 16, "dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1,
                            "eos_token_id": 2, "decoder_start_token_id": 1}), "WhisperModel", {"x": Values((16, 32))}, Values((16, WIDTH)), hidden),
    row("wav2vec2", ("Wav2Vec2Config", WAV), "Wav2Vec2ForCTC", seconds(160), Values((15,), below=32)),
    row("wav2vec2_layer_norm", ("Wav2Vec2Config", {**WAV, "feat_extract_norm": "layer", "do_stable_layer_norm": True}), "Wav2Vec2ForCTC",
        seconds(160), Values((15,), below=32)),
    row("hubert", ("HubertConfig", WAV), "HubertForCTC", seconds(160), Values((15,), below=32)),
    row("wavlm", ("WavLMConfig", {**WAV, "num_buckets": 16, "max_bucket_distance": 16}), "WavLMForCTC", seconds(160), Values((15,), below=32)),
    row("data2vec_audio", ("Data2VecAudioConfig", {**WAV, "num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 3}), "Data2VecAudioForCTC",
        seconds(160), Values((15,), below=32)),
    row("ast", ("ASTConfig", {**WHAT, **NONE, "patch_size": 4, "frequency_stride": 4, "time_stride": 4, "max_length": 16, "num_mel_bins": 16,
                "num_labels": 10}), "ASTForAudioClassification", {"input_values": Values((16, 16))}, Values((), below=10)),
    row("patchtst", ("PatchTSTConfig", {"num_input_channels": 3, "context_length": 16, "patch_length": 4, "patch_stride": 4, "d_model": WIDTH,
                     "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 64, "prediction_length": 4, "loss": "mse",
                     "attention_dropout": 0.0, "ff_dropout": 0.0, "head_dropout": 0.0, "scaling": None}), "PatchTSTForPrediction",
        {"past_values": Values((16, 3))}, Values((4, 3)), lambda y: y.prediction_outputs,
        options=("--freeze", "*position_enc")),  # requires_grad stands in no file
]
# Whisper's encoder alone: its own module, from the model's parts.
WHISPER = next(r for r in SOUNDS if r.name == "hf_whisper_encoder")


def whisper_encoder():
    return Only(WHISPER.make().model.encoder, hidden, ["input_features"])


SOUNDS[0] = Row("hf_whisper_encoder", "transformers", whisper_encoder, {"input_features": Values((16, 32))}, Values((16, WIDTH)))
ROWS = TEXTS + PICTURES + SOUNDS
