"""What is known to fail: (pattern of NAME.VARIANT, reason). What passes in spite of it fails the survey."""
KNOWN = [
    ("spectral_discriminator.train17.dyn", "TorchScript's exporter does not write spectral_norm in training mode"),
    ("spatial_transformer.eval13.dyn", "affine_grid needs opset 20"),
    ("transformer_padded.eval13.dyn", "scaled_dot_product_attention needs opset 14"),
    ("local_attention.eval13.dyn", "TorchScript's exporter does not write unfold of an unknown batch"),
    ("graph_index_add.eval13.dyn", "offsets of samples are not taken apart in TorchScript's form"),
    ("s4.eval17.b2", "the exporter computes a part of the kernel's formula, and the file holds that in its weights' place"),
    *((f"{name}", "dynamo looks the table of relative positions up itself, and the file holds what it found in the table's place (optimize=False keeps it)") for name in ("hf_mt5_encoder.dynamo18.dyn", "hf_t5_encoder.dynamo20.b2")),
    ("hf_funnel.dynamo*", "dynamo computes products of weights, and the file holds those in the weights' place (optimize=False keeps the weights)"),
    ("timm_xcit_nano_12_p16_224.dynamo18.dyn", "dynamo computes the projection of the places' sines, and the file holds that in the weights' place (optimize=False keeps them)"),
    ("timm_efficientvim_m1.dynamo*", "dynamo computes shares of weights by sigmoid and softmax, and the file holds those in the weights' place (optimize=False keeps them)"),
    ("timm_mobileone_s0.dynamo*", "untrained it makes much of rounding: ONNX Runtime differs by 1.3e-4 from itself without its optimizations, tandem from float64 by 7e-5"),
    ("timm_lambda_resnet26rpt_256.dynamo18.dyn", "dynamo looks the table of relative positions up itself, and the file holds what it found in the table's place (optimize=False keeps it)"),
    ("timm_dla46_c.dynamo18.dyn", "the input of a ReLU is zero but for rounding: gradients behind it agree to 1e-6, those before it to 1e-3"),
    *((f"{name}.*", "untrained it makes so much of rounding that PyTorch differs from itself by more than 1e-3 where the weights' last bits are others") for name in (
        "timm_ghostnet_050", "timm_repghostnet_050", "timm_repvgg_a0", "hf_levit")),
    ("hf_vit_mae.*", "PyTorch does not train the tables of places, which a file cannot say: PARAMETER, and zeros until weights are loaded"),
    *((f"keras_{name}.*", "Keras's LSTM has one bias, ONNX's the sum of two: both train, so that their sum moves twice as far") for name in ("lstm", "bilstm", "lstm_stack")),
    ("hf_swin.dynamo20.b2", "dynamo adds the mask of the windows to a bias it looked up itself, and the file holds the sums"),
    *((f"keras_{name}.*", "tf2onnx writes a normalization that it cannot fuse as a scale and an offset, which train as they stand") for name in ("separable", "residual")),
    ("yolo.train17.dyn", "a TorchScript file does not say that the anchors are a buffer: --constant anchors"),
    ("timm_deit_tiny_distilled_patch16_224.eval13.dyn", "scaled_dot_product_attention needs opset 14"),
    *((f"{name}.dynamo*", "dynamo cannot export it") for name in (
        "timm_caformer", "timm_gcvit", "timm_hiera_tiny_224", "timm_nest", "timm_twins_svt_small", "hf_longformer", "hf_nystromformer", "hf_xlnet")),
    *((f"{name}.train17.dyn", "in training mode, after a step, PyTorch's float32 is as far from its float64") for name in (
        "tv_efficientnet_b0", "tv_googlenet", "timm_dla46_c", "timm_ese_vovnet19b_slim_dw", "timm_dpn48b")),
    ("timm_resnest14d.train17.dyn", "the third loss differs by 1.4e-4: not looked into yet"),
    ("hf_fnet.dynamo20.b2", "dynamo looks the token types up itself, and the file holds a row for each place in the one row's place"),
    ("hf_longformer.eval17.b2", "NonZero of the mask: how many words are global is a shape"),
    ("lstm_projected.*", "the exporters write nn.LSTM(proj_size=...) as an LSTM that ONNX does not have: its states are of different widths"),
]
