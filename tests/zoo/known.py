"""What is known to fail: (pattern of NAME.VARIANT, reason). What passes in spite of it fails the survey."""
KNOWN = [
    ("s4.eval17.b2", "the exporter computes a part of the kernel's formula, and the file holds that in its weights' place"),
    ("hf_mt5_encoder.dynamo18.dyn", "dynamo looks the table of relative positions up itself, and the file holds what it found in the table's place (optimize=False keeps it)"),
    ("hf_funnel.dynamo18.dyn", "dynamo computes products of weights, and the file holds those in the weights' place (optimize=False keeps the weights)"),
    ("spatial_transformer.dynamo18.dyn", "the grid that dynamo computes for affine_grid is taken for a weight: --constant view_4"),
    ("lstm_projected.*", "the exporters write nn.LSTM(proj_size=...) as an LSTM that ONNX does not have: its states are of different widths"),
]
