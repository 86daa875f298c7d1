"""docs/models.md from the survey's results."""
import collections
import re

HEAD = """# Architectures that were tried

Written by `tests/zoo/survey.py --results FILE --table docs/models.md`; do not edit. Small configurations with random weights, exported by
PyTorch's exporters (dynamo of opset 18 by default; TorchScript, other opsets, static batches and training mode in turn), tf2onnx and skl2onnx:
`tests/zoo/zoo.py` says what the names of exports mean. Each file is planned and trained for three steps of SGD at a batch of 4 from the file's
weights. **loss**, **gradient** (its norm) and **steps** (the worst of three losses) are relative differences from PyTorch with the same
weights and batches, at most 1e-4 (or four times what PyTorch's float32 differs from its float64, or from itself where the weights'
last bits are others, but 1e-3 at most); **export** is how far the trained model's
output is from ONNX Runtime's, relative to the largest value, at most 1e-5. Where there is no number there was nothing to compare with.
samples/s is the fastest of three steps on one thread of a busy machine: read it as an order of magnitude. All rows come from one program, but
for those that a fix after it was for.

Export your own by `torch.onnx.export(..., dynamo=True, optimize=False)`: the default, which most rows here have, computes formulas of parameters and leaves
the parameters out; what is left trains as it stands, which a warning says. That is the largest single cause of the disagreements below.

Two samples of architectures were chosen after these (families `unseen_*` and `second_*`; 2026-11-23, default exporter, dynamic batch) and run once before
anything was mended for them. Of the first 124 of 141 agreed with PyTorch, 132 of 140 after what that mended; of the second, after those mends, 92 of 100. Of these
eight, four hold a formula of parameters that the exporter computed (`optimize=False` keeps it), one has a gradient of its own that no file says, one multiplies
samples of a batch by each other and is refused, in one PyTorch's float32 is itself 3e-3 from its float64, and one was mended.

A third sample (families `third_*`, 177 architectures) was chosen and run once in the same way by the program of that day: 6 could not be exported, 144 of 171
agreed. In two of the 27 the row or the comparison is at fault (an input that bears its output's name, which makes an invalid file; a model that PyTorch could not copy);
four were mended (constants that stand without a note in a file which lists all parameters). Of twenty others, looked into since, two were mended (an identity
matrix that was trained, by what the exporter notes of its folding; the comparison, which did not know computed weights of transposed
convolutions); four hold a formula of parameters that the exporter computed; in four a detach, no_grad or a
mode is lost that no file says (one of these was refused before, as it joins two batches); in five PyTorch itself is as far from its float64, or diverges at the rate of the trial; two files are invalid (ONNX Runtime refuses them,
too); in three samples would meet or data decide a shape. `tests/zoo/known.py` has the reason of each.

A fourth sample (families `fourth_*`, 60 architectures that no earlier one has, committed before any was run; rates and calibrations were set by PyTorch alone) was run
once in the same way on 2026-11-23, each by dynamo and every third by TorchScript, too. By dynamo 58 could be exported: **44 of 58 (76 %) agreed in everything the table asks
at the first try, 48 of 58 (83 %) imported, trained and had PyTorch's first loss and gradient.** By TorchScript 11 of 16 agreed in everything. Why the 14 did not:

| cause | architectures | what became of them |
|---|---|---|
| tandem | `seg_net` (max-unpooling: the channel's offset beside the sample's in the indices), `timm_poolformerv2_s12` (zeros in place of a bias that a normalization has not were trained) | mended |
| the exporter lost a detach | `finite_scalar` (rounding, trained straight through) | mended by a rule: x + (y - x) where no gradient flows from y to x; it mended `world_model` of the third sample, too |
| the exporter computed a formula of parameters | `moving_average`, `light_graph`, `relational_graph`, `noisy_q`, `timm_hieradet_small` | a warning names the parameters (of `light_graph` it did not before); exported with `optimize=False` the first four agree |
| samples meet | `sim_clr` (a loss over the pairs of a batch) | refused |
| rounding | `timm_densenet121`, `timm_fbnetc_100`, `timm_vovnet39a` (losses; in the last also the gradient), `timm_rexnetr_100`, `timm_tf_efficientnetv2_b0` (only the trained model's output: 1.0e-5 and 1.7e-5 in place of 1e-5) | untrained with normalizations in inference mode they make much of it: ONNX Runtime and PyTorch are as far from float64 |

Of TorchScript's five two hold a buffer that the file does not tell from a parameter (with `--constant` they agree), one folded a padding that tandem did not (mended), and
two are the rounding of above. With these mends 47 of 58 agree in everything, 51 of 58 have PyTorch's first loss and gradient; with the four of `optimize=False` 55.

A fifth sample (families `fifth_*`, 40 architectures that no earlier one has, committed before any was exported or run; rates were set by PyTorch's own gradients) was run
once in the same way on 2026-11-23 and -24, each by dynamo with `optimize=False`, as this page advises, and by its default. 38 could be exported. With `optimize=False`
**33 of 38 (87 %) agreed in everything the table asks at the first try; all 38 imported and trained, and 35 (92 %) had PyTorch's first loss and gradient**; by the default 32 and 34.
Why the others did not:

| cause | architectures | what became of them |
|---|---|---|
| tandem | `hf_informer` (a frozen table of sines, which the file calls PARAMETER, was trained) | mended by a rule: what is looked up and is exactly such a table is frozen |
| the exporter lost a no_grad | `hf_hrm_text` (by the default the comparison failed before: its warning names four of the 36 copies to be tied; such copies are one now) | no file says it |
| the exporter computed a formula of parameters | `hierarchical_gates`, `gated_tabular` (the default only) | a warning names the parameters; with `optimize=False` they agree |
| rounding | `timm_inception_v3`, `timm_nasnetalarge` (losses, and the trained model's output: up to 1e-4 in place of 1e-5; the first also the gradient), `timm_regnetv_040` (the output alone: 1.02e-5, with `optimize=False`) | untrained they make much of it: PyTorch and ONNX Runtime are as far from float64, or within a factor of three |
| not exported | `gaussian_splats` (cumprod), `timm_vit_relpos_medium_patch16_rpn_224` (a view of an unknown batch) | dynamo refuses them |

With the mends 34 of 38 agree in everything and 36 have PyTorch's first loss and gradient, by the default 33 and 35. What the default looked up in a parameter, turned or repeated (T5's, mT5's, UMT5's, Swin's
and lambda networks' tables, a layer used several times) trains as the parameter would since then, which mended rows of the tables and samples above.

The tables below are of the program before the third sample was mended. With the program that mended the fourth, the weights that it finds in 342 exports (the third and fourth sample and some of the
second) were listed again and differed from those before in two, both of the fourth sample; batches of 1 and of 5 were planned for 325 of them, all but those that `known.py` calls invalid or refused.

"""

WHERE = re.compile(r"tandem \w+: exit code \d+: error: (model '[^']*' cannot be used, \d+ problems?: )?")


def size(result, key):
    return f"{result[key]:.0e}" if key in result else ""


def line(result, why_not, known):
    why = why_not(result)
    reason = WHERE.sub("", " ".join((why and known(f"{result['name']}.{result['variant']}") or why).split())).replace("|", "\\|")
    reason = reason if len(reason) < 240 else reason[:237] + "..."
    rate = f"{result['samples_per_second']:,.0f}" if "samples_per_second" in result else ""
    cells = ["yes" if result.get("imports") else "no", "yes" if result.get("trains") else "no", *(size(result, k) for k in ("loss", "norm", "losses", "export")), rate, reason]
    return f"| {result['name']} | {result['variant']} | " + " | ".join(cells) + " |"


def twenty(results, why_not):
    """The runs of more than three steps."""
    out = "\n## Twenty steps\n\nThe largest relative difference of twenty losses from PyTorch's, from the same weights and batches.\n\n"
    out += "| architecture | export | steps | why not |\n|---|---|---|---|\n"
    for r in results:
        out += f"| {r['name']} | {r['variant']} | {size(r, 'losses')} | {WHERE.sub('', ' '.join(why_not(r).split()))[:200]} |\n"
    return out


def text(results, why_not, known):
    long, results = [r for r in results if r["steps"] > 3], [r for r in results if r["steps"] == 3]
    results = sorted((r for r in results), key=lambda r: (r["family"], r["name"], not r["variant"].startswith(("dynamo18", "tf2onnx18", "skl2onnx17")), r["variant"]))
    exported = [r for r in results if "not_exported" not in r]
    well = [r for r in exported if not why_not(r)]
    counts = collections.Counter(r["variant"] for r in exported)
    good = collections.Counter(r["variant"] for r in well)
    names = {r["name"] for r in exported}
    out = HEAD + f"{len(names)} architectures in {len(exported)} exports, of which {len(well)} import, train and agree; "
    out += f"{len(results) - len(exported)} more could not be exported.\n\n| export | files | import, train and agree |\n|---|---|---|\n"
    out += "".join(f"| {v} | {n} | {good[v]} |\n" for v, n in counts.most_common())
    for family in dict.fromkeys(r["family"] for r in results):
        out += f"\n## {family}\n\n| architecture | export | imports | trains | loss | gradient | steps | export | samples/s | why not |\n|---|---|---|---|---|---|---|---|---|---|\n"
        out += "".join(line(r, why_not, known) + "\n" for r in results if r["family"] == family)
    return out + (twenty(long, why_not) if long else "")
