"""What is known to differ from PyTorch: (pattern of exports, checks, reason). A check that passes in spite of it fails."""
ALL = ("list", "steps", "rows")

KNOWN = [
    ("mixture.torchscript_eval.*", ("list", "steps"), "the shares became three Constant nodes, which are constants where they stand in no weight's place"),
]
