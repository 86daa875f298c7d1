"""What is known to differ from PyTorch: (pattern of exports, checks, reason). A check that passes in spite of it fails."""
ALL = ("list", "steps", "rows")
# On these ONNX Runtime (1.31) ends with a segmentation fault when it reads the exporter's own file: they are compared with PyTorch alone.
NOT_FOR_ONNX_RUNTIME = ["embedding_bag.dynamo_plain.*"]

KNOWN = [
    ("mixture.torchscript_eval.*", ("list", "steps"), "the shares became three Constant nodes, which are constants where they stand in no weight's place"),
]
