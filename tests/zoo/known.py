"""What is known to fail: (pattern of NAME.VARIANT, reason). What passes in spite of it fails the survey."""
KNOWN = [
    ("spectral_discriminator.train17.dyn", "TorchScript's exporter does not write spectral_norm in training mode"),
    ("spatial_transformer.eval13.dyn", "affine_grid needs opset 20"),
    ("transformer_padded.eval13.dyn", "scaled_dot_product_attention needs opset 14"),
    ("local_attention.eval13.dyn", "TorchScript's exporter does not write unfold of an unknown batch"),
    ("bigru_mean.eval17.b2", "a first state of the exported batch is not taken apart"),
    ("lstm_state.eval17.b2", "a first state of the exported batch is not taken apart"),
    ("dynamic_graph.dynamo20.b2", "offsets of the exported batch's samples are not taken apart"),
    ("graph_index_add.eval13.dyn", "offsets of samples are not taken apart in TorchScript's form"),
    ("glow.*", "Det is not supported"),
    ("s4.eval17.b2", "the exporter computes a part of the kernel's formula, and the file holds that in its weights' place"),
    ("hf_mt5_encoder.dynamo18.dyn", "dynamo looks the table of relative positions up itself, and the file holds what it found in the table's place (optimize=False keeps it)"),
    ("hf_funnel.dynamo18.dyn", "dynamo computes products of weights, and the file holds those in the weights' place (optimize=False keeps the weights)"),
    ("spatial_transformer.dynamo18.dyn", "the grid that dynamo computes for affine_grid is taken for a weight: --constant view_4"),
    ("lstm_projected.*", "the exporters write nn.LSTM(proj_size=...) as an LSTM that ONNX does not have: its states are of different widths"),
]
