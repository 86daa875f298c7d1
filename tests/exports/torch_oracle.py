"""Asks PyTorch about what tandem makes of its exports.

torch_oracle.py [--whole] [--family NAME] [--exports FOLDER] [--keep FOLDER] [PATTERN...]

Exports the zoo's models (export_models.py) that fit a pattern, as in a shell, and runs the program that TANDEM names:

  list   the plan's trained tensors are the model's named_parameters, no more and no less, each found by its values
  steps  losses of three SGD steps and the weights and statistics after them, at a batch that is not the file's
  rows   predictions at batches of 1, 3 and 4, beside PyTorch's and ONNX Runtime's at the file's own batch

Without --whole (or TANDEM_WHOLE_ZOO in the environment) a sample runs: of each model one export by TorchScript and one by
dynamo. --exports takes files that were made before; --keep keeps what was made. Prints a table. What is known to fail
stands in known_failures.py with its reason; when it passes, that is a failure too.
Exit code 3: the packages are missing, 1: something differs.
"""
import argparse
import fnmatch
import os
import pathlib
import sys
import tempfile
import warnings

try:
    import numpy  # noqa: F401
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401  the dynamo exporter wants it
    import torch
except (ImportError, OSError) as missing:
    print(missing)
    sys.exit(3)

from export_models import ARCHITECTURES, BATCHES, EXPORTERS, FAMILIES, names
from known_failures import KNOWN
from trial import CHECKS, Trial


def known(name, check):
    return next((reason for pattern, checks, reason in KNOWN if check in checks and fnmatch.fnmatch(name, pattern)), None)


def sample():
    """Of each model two exports, its place in the list says which: TorchScript and dynamo, folding or not, batches in turn."""
    kinds = list(BATCHES)
    return [f"{a}.{EXPORTERS[half + (i + half // 2) % 2]}.{kinds[(i + half) % 3]}" for i, a in enumerate(ARCHITECTURES) for half in (0, 2)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole", action="store_true", default=bool(os.environ.get("TANDEM_WHOLE_ZOO")))
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--exports", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("patterns", nargs="*", default=["*"])
    arguments = parser.parse_args()
    if not os.access(os.environ.get("TANDEM", ""), os.X_OK):
        parser.error("TANDEM does not name the program: set it to build/release/tandem")
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)  # weight_norm's old form is deprecated, and in many models
    chosen = [n for n in (names() if arguments.whole else sample()) if any(fnmatch.fnmatch(n, p) for p in arguments.patterns)]
    if arguments.family:
        chosen = [n for n in chosen if n.split(".")[0] in FAMILIES[arguments.family]]
    failures, counts = [], dict.fromkeys(CHECKS, 0)
    print(f"{'export':<46}{'list':<8}{'steps':<8}{'rows':<8}")
    for name in chosen:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            if arguments.keep:
                folder = arguments.keep / name
                folder.mkdir(parents=True, exist_ok=True)
            try:
                trial = Trial(name, folder, arguments.exports)
            except Exception as error:  # PyTorch's exporter, not tandem
                reason, words = known(name, "export"), (str(error).splitlines() or [""])[0]
                print(f"{name:<46}not exported: {type(error).__name__}: {words}"[:200])
                if reason is None:
                    failures.append(f"{name}: export: {type(error).__name__}: {words}")
                continue
            results = trial.run()
        cells = ""
        for check in CHECKS:
            reason, why = known(name, check), results[check]
            counts[check] += not why
            cells += f"{'ok' if not why else 'known' if reason else 'FAILS':<8}"
            if why and not reason:
                failures.append(f"{name}: {check}: {why}")
            if not why and reason:
                failures.append(f"{name}: {check}: passes, but known_failures.py says: {reason}")
        print(f"{name:<46}{cells}{' '.join(sorted(trial.notes))}", flush=True)
    print(f"{len(chosen)} exports; " + ", ".join(f"{check}: {counts[check]}" for check in CHECKS))
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
