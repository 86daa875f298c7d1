"""What is known to differ from PyTorch: (pattern of exports, checks, reason). A check that passes in spite of it fails."""
ALL = ("list", "steps", "rows")

KNOWN = [
    ("embedding_bag.*", ALL, "exported as Loop and sequences of tensors, which tandem does not run"),
    ("llama.dynamo_plain.*", ALL, "chunk is SplitToSequence and SequenceAt before the exporter optimises, which tandem does not run"),
    ("mixture.torchscript_eval.*", ("list", "steps"), "the shares became three Constant nodes, which are constants where they stand in no weight's place"),
]
