"""docs/models.md from the survey's results."""
import collections
import re

HEAD = """# Architectures that were tried

Written by `tests/zoo/survey.py --results FILE --table docs/models.md`; do not edit. Small configurations with random weights, exported by
PyTorch's exporters (dynamo of opset 18 by default; TorchScript, other opsets, static batches and training mode in turn), tf2onnx and skl2onnx:
`tests/zoo/zoo.py` says what the names of exports mean. Each file is planned and trained for three steps of SGD at a batch of 4 from the file's
weights. **loss**, **gradient** (its norm) and **steps** (the worst of three losses) are relative differences from a PyTorch model with the same
weights and batches, in which what the exporter fused and computed is fused and computed, too ("Beside the module" compares with the module as its user has it); they are at most 1e-4 (or four times what PyTorch's float32 differs from its float64, or from itself where the weights'
last bits are others, but 1e-3 at most); **export** is how far the trained model's
output is from ONNX Runtime's, relative to the largest value, at most 1e-5. Where there is no number there was nothing to compare with.
samples/s is the fastest of three steps on one thread of a busy machine: read it as an order of magnitude. Which program the rows
are of stands before the tables.

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
mode is lost (one of these was refused before, as it joins two batches; detach is found again since then); in five PyTorch itself is as far from its float64, or diverges at the rate of the trial; two files are invalid (ONNX Runtime refuses them,
too); in three samples would meet or data decide a shape. `tests/zoo/known.py` has the reason of each.

A fourth sample (families `fourth_*`, 60 architectures that no earlier one has, committed before any was run; rates and calibrations were set by PyTorch alone) was run
once in the same way on 2026-11-23, each by dynamo and every third by TorchScript, too. By dynamo 58 could be exported: **44 of 58 (76 %) agreed in everything the table asks
at the first try, 48 of 58 (83 %) imported, trained and had PyTorch's first loss and gradient.** By TorchScript 11 of 16 agreed in everything. Why the 14 did not:

| cause | architectures | what became of them |
|---|---|---|
| tandem | `seg_net` (max-unpooling: the channel's offset beside the sample's in the indices), `timm_poolformerv2_s12` (zeros in place of a bias that a normalization has not were trained) | mended |
| the exporter lost a detach | `finite_scalar` (rounding, trained straight through) | mended by a rule: x + (y - x) where no gradient flows from y to x; it mended `world_model` of the third sample, too; since then detach is read from the exporter's notes |
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
and lambda networks' tables, a layer used several times) trains as the parameter would since then, which mended rows of the tables and samples above. So did PyTorch's detach, which its exporter's notes tell:
the first gradient of `tv_raft` (third sample) was 11 times PyTorch's and is now the same to 1e-7.

A sixth sample (families `sixth_*`, 100 architectures that no earlier one has: 40 small ones, 41 of transformers, 16 of timm, 3 of torchvision; committed before any was exported;
rates were set by PyTorch's own gradients) was run once in the same way on 2026-11-24, by dynamo with `optimize=False`, by its default, and every fifth by TorchScript, too. 90 could be
exported by dynamo. With `optimize=False` **87 of 90 (97 %) imported and trained at the first try, 82 (91 %) had PyTorch's first loss and gradient, and 72 (80 %) agreed in everything the
table asks**; by the default 86, 75 and 65 of 90; of TorchScript's 22 files 15 could be written, of which 14, 14 and 11. Why the others did not:

| cause | architectures | what became of them |
|---|---|---|
| the row | `biaffine_parser` (labels fit both axes of square scores: axis 1 was taken, as a note says), `hf_musicgen` (each two lines of its input are one sample), `hf_sapiens2` (PyTorch draws places at random in training mode) | the rows were put right |
| the comparison | `period_judges`, `domain_adversary`, `folding`, `clipped_policy`, `radial_flow` (losses over a batch: there are no rows to predict; loss, gradient and steps agree), `distribution_boxes` (a fusion of ONNX Runtime, MatmulTransposeFusion, miscounts a transposed matrix times a vector) | no longer asked for; the last is known |
| the exporter lost something | `hf_qwen2_audio` (that its table of places is frozen: here it is drawn at random), `hf_mellum` (a word that may see nothing: PyTorch's attention gives 0 there, the file a mean) | with `--freeze` the first agrees; no file says it |
| samples meet | `barlow_twins` (correlations over the batch), `hf_autoformer` (transformers turns values of one sample by delays of another) | refused |
| the exporter computed a formula of parameters | `attention_free`, `energy_normalized`, `smoothing_rnn`, `periodic_numbers`, `skeletons`, `spiking`, `radial_flow` (the default only) | a warning names the parameters (that of `radial_flow` was not looked at); with `optimize=False` they agree |
| the exporter wrote an invalid file | `timm_gemma4_vit_167m` (the default only) | ONNX Runtime refuses it, too |
| rounding | `hf_owlv2`, `timm_dpn68`, `timm_xception41`, `timm_efficientnet_blur_b0` (the trained model's output alone: 1.0e-5 to 3.1e-5 in place of 1e-5), `timm_dla60x_c` (its first gradient's norm is 22873: 1.001e-3 in place of 1e-3), `timm_resnet50_clip` (by the default, three losses) | PyTorch's float32 is as far from its float64, or nearly; of `timm_xception41` and `timm_efficientnet_blur_b0` that was not measured, but taken from how the others differ |
| not exported | `hf_longcat_flash`, `hf_gemma3n_text`, `hf_llama4_text`, `hf_nllb_moe`, `hf_rt_detr_v2`, `hf_zoedepth`, `hf_timesfm`, `hf_paligemma`, `timm_efficientnet_cc_b0_4e`, `timm_maxvit_rmlp_pico_rw_256` | dynamo refuses them |

No fault of tandem's was found in the 90. Run again with the rows and the comparison put right, 88 of 90 train with `optimize=False`, 86 have PyTorch's first
loss and gradient, and 81 agree in everything; by the default 87, 79 and 73.

A seventh sample (families `seventh_*`, 83 architectures that no earlier one has: 52 small ones, 16 of transformers, 15 of timm; 27 of the small ones are neither vision nor text;
the list was committed before any was exported) was run once on 2026-11-25 and -26, by dynamo with `optimize=False` and by its default. Each was compared with PyTorch's module as its
user has it, too. Of 166 exports 160 could be written. At the first try **132 of 160 (83 %) agreed in everything, or a warning named why they do not**: 98 of 104 small ones, 17 of 28 of
transformers, 17 of 28 of timm. Why the others did not:

| cause | exports | what became of them |
|---|---|---|
| tandem: a parameter whose shape or whose bounds are read was a constant | `sylvester_flow` and `hf_seggpt` (`optimize=False`) | mended: they agree; by the default `sylvester_flow` holds a formula of parameters, as a warning says |
| tandem: a gradient of attention in rows that a mask hides whole by a finite number | `hf_timesfm_2_5` (both) | mended; what differs still is the file's: PyTorch's attention gives 0 there, the exporter's file a mean |
| tandem: a false alarm on parameters that are turned for a lookup or stacked | the default of `hf_mistral4`, `hf_hyv3`, `hf_axk1`, `hf_kolibri1` | mended: no warning |
| the comparison: the warned parameter's gradient is too small for the whole model's to show it, or a number is added, which differs by weight decay alone | the default of `hf_lara_mini`, `hf_qwen3_5_moe_text` | that parameter's own gradient is compared; the warning of an added number says what it is |
| tandem: a needless warning | the default of `flow_of_sound` (a parameter plus twice the identity) | left: the exporter's note does not tell it from a formula |
| ties | `hf_glm_moe_dsa` (both) | left: ONNX's TopK takes the first of equals, PyTorch's does not say which; with a stable sort in its place it agrees |
| the row | `uncertain_tasks` (both: an input bore the output's name) | put right: it agrees, by the default a warning names the formula |
| the exporter computed a formula of parameters | the default of `monotone_lattice` | a warning names the parameters; the comparison does not know the formula |
| rounding | `timm_resnetv2_50d_frn`, `timm_dla60_res2next`, `timm_eca_vovnet39b`, `timm_skresnet50d`, `timm_pnasnet5large` (both), `timm_xception65p` (`optimize=False`) | untrained they make much of it: from float64 tandem is as far as PyTorch, once three times as far (3.0e-5) |
| not exported | `hf_aria_text`, `hf_mimi`, `timm_vit_relpos_medium_patch16_cls_224` (both) | dynamo refuses them |

With the mends 144 of 160 agree or carry the right warning. Of the other 16 eleven differ by rounding, four by what the file says, and one carries a needless warning. The exports that
differed were run again but for timm's, and so were the defaults of the small ones and of transformers.

The tables are of the program of 2026-11-24. All 200 exports of `small`, 18 of `sklearn`, 42 of `keras`, 70 of `torchvision`, 206 of `timm` and 168 of `transformers` were tried; 41 could not be
exported (their reasons stand in the tables), 631 of the other 663 agree in everything, and of the 32 others `known.py` has the reason: none is a fault of tandem's that is known to be left. In 15
much is made of rounding; in four tf2onnx writes Keras's layers as others; in six the exporter computed a formula of parameters; in four the file does not say what is
frozen or a buffer; in `lstm_projected`, `graph_index_add` and one way of `discrete_codes` the exporter wrote something else.

LSTMs of Keras trained two biases where Keras has one (docs/weights.md) and differed; they agree since the second stays zero. CondConv and StyleGAN2 (`mixed_filters`, `style_generator`) were refused:
convolutions whose groups are the samples follow the batch now.

`survey.py` also compares the trained model's output with that of PyTorch's (four weighted sums over two samples; at most 1e-2). Of the 200 exports of `small` 189 have such an output: in 182 it is within 1e-5; in
`graph_index_add` (eval13.dyn) and `s4` (eval17.b2), which differ anyway, 0.5 and 5e-3; in `tcn` and the other `s4` below 1e-4; in `tab_net` and `mlp_batch_norm` 4e-3 and 2e-3, which in the second is that PyTorch
keeps the unbiased variance of 4 samples, 4/3 of ONNX's. Of the 66 of `torchvision` 62 are within 1e-5 and none is beyond 1.5e-3. Of `timm` 42 were run with it: 37 are within 1e-2, and `timm_repghostnet_050`,
`timm_repvgg_a0` and `timm_mobileone_s0`, which differ anyway, are 0.06 to 0.25 off, of which nobody has measured how much is rounding and how much that variance. The rest was not run with it.

The last run of `torchvision`, `timm` and `transformers` found five faults of tandem's, which are mended: tuples that name all places of a mask, and places that a file computes from constants for its own
batch, did not follow the batch (`hf_mobilebert`, `hf_xlm_roberta_mlm`, dynamo20.b2; `hf_flaubert`, eval17.b2); a loop's turn that is declared a list was handed out as a number (`tv_mvit`, eval13.dyn);
weights that are normalized before a convolution takes them were held for statistics by TorchScript's training mode and not trained (`timm_test_nfnet`, `timm_nf_resnet26`, train17.dyn); and by its inference mode
such weights were exported with the statistics of the template's (`timm_nf_regnet_b0`, eval17.b2), which no column here shows: **export** compares with ONNX Runtime, and it read the same file. Measured
against PyTorch, its output after three steps at rate 0.3 was 1.5 of the largest value off, and is 6e-6 now. Three rows were at fault themselves and never ran in PyTorch (`tv_mvit`, `timm_caformer`, `timm_gcvit`); put right,
they agree. The rows that a mend concerns were run again after it; for all other exports of the three families the program decides of every tensor as it did before.
Surveyed with all families together, these rows come to other variants: 219 of the 222 that are not in the tables were tried by the mended program, too. 177 agree, 28 could not be exported, `known.py` has the reason
of the other 14; none showed a further fault.

"""

FAMILIES = ("keras", "sklearn", "small", "timm", "torchvision", "transformers")
OLDER = "\nThese rows are of an earlier program: they were not run again when the others were, and the counts above are without them.\n"
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


BESIDE = "\n## Beside the module\n"


def with_beside(page, results, others_older=True):
    """The page with the table of the comparison with the module as its user has it, from the results that have it; the other tables' rows may be without."""
    rows = sorted((r for r in results if r.get("module")), key=lambda r: (r["family"], r["name"], r["variant"]))
    families = ", ".join(f"`{f}`" for f in sorted({r["family"] for r in rows}))
    variants = ", ".join(f"`{v}`" for v in sorted({r["variant"] for r in rows}))
    largest = {id(r): max(r["module"].get(k, 0) for k in ("loss", "norm", "losses")) for r in rows}
    told = [r for r in rows if r["module"].get("told")]
    alike = sum(largest[id(r)] <= 1e-4 for r in rows)
    out = BESIDE + f"\nRelative differences of loss, gradient and three steps from PyTorch's module as its user has it, in training mode: nothing fused, nothing computed. The rows are the family {families}, "
    out += f"exports {variants}: {len(rows)} files, of which {alike} are within 1e-4 and {len(told)} have a warning that names the cause."
    if others_older:
        out += " All other tables of this page are of the older measure alone: they compare with a PyTorch model in which the same was fused and computed as in the file."
    out += "\n\n"
    out += "| architecture | export | loss | gradient | steps | warned |\n|---|---|---|---|---|---|\n"
    for r in rows:
        m = r["module"]
        out += f"| {r['name']} | {r['variant']} | " + " | ".join(f"{m[k]:.0e}" if k in m else "" for k in ("loss", "norm", "losses")) + f" | {'yes' if m.get('told') else ''} |\n"
    before, _, after = page.partition(BESIDE)
    rest = after.partition("\n## ")[2]
    if not after:
        before, _, rest = page.partition("\n## ")
    counts = re.search(r"^\d+ architectures in \d+ exports", before, re.MULTILINE)
    before = HEAD + before[counts.start():]
    return before.rstrip() + "\n" + out + ("\n## " + rest if rest else "")


def kept(page, families):
    """{family: section} of a page's families that are not among these: their rows are of the program that wrote them."""
    sections = (part.split("\n", 1) for part in page.split("\n## ")[1:])
    return {name: OLDER + rows.replace(OLDER, "") for name, rows in sections if name in FAMILIES and name not in families}


def text(results, why_not, known, page=""):
    """The page of these results; families without any keep what `page`, the one before, says of them."""
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
    older = kept(page, {r["family"] for r in results})
    for family in FAMILIES:
        if family in older:
            out += f"\n## {family}\n{older[family].rstrip()}\n"
        rows = "".join(line(r, why_not, known) + "\n" for r in results if r["family"] == family)
        if rows:
            out += f"\n## {family}\n\n| architecture | export | imports | trains | loss | gradient | steps | export | samples/s | why not |\n|---|---|---|---|---|---|---|---|---|---|\n" + rows
    out += twenty(long, why_not) if long else ""
    return with_beside(out, results, bool(older)) if any(r.get("module") for r in results) else out
