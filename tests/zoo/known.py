"""What is known to fail: (pattern of NAME.VARIANT, reason). What passes in spite of it fails the survey."""
KNOWN = [
    ("lstm_projected.*", "the exporters write nn.LSTM(proj_size=...) as an LSTM that ONNX does not have: its states are of different widths"),
]
