"""Every Python snippet of the pages, in its order and in one folder, as a reader would run it."""
import os
import re
import shlex
import subprocess

import numpy as np
import pytest

from conftest import MODELS

DOCS = MODELS.parent / "docs"


def snippets(page, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", sorted(page.name for page in DOCS.glob("*.md") if snippets(page)))
def test_every_snippet_of_a_page_runs(page, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the pages have modules of PyTorch")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    import tandem_onnx.torch
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lenet.onnx").write_bytes((MODELS / "lenet.onnx").read_bytes())
    names = {"__name__": "page", "tandem_onnx": tandem_onnx, "module": torch.nn.Linear(8, 3), "example_inputs": torch.randn(4, 8)}
    for number, text in enumerate(snippets(DOCS / page), 1):
        exec(compile(text, f"docs/{page}, snippet {number}", "exec"), names)


def test_snippets_are_found_and_have_a_test():
    """Of docs/, by its name; of README.md, the first beside the command line, the other by itself."""
    assert len(snippets(DOCS / "python.md")) >= 8 and snippets(DOCS / "coming-from.md") and len(snippets(DOCS.parent / "README.md")) == 2
    others = [path for path in DOCS.parent.rglob("*.md") if path.parent not in (DOCS, DOCS.parent) and "build" not in path.parts]
    assert not [str(path) for path in others if snippets(path)]
    spelled = {word for path in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
               for word in re.findall(r"^ *```(py\w*|ipython\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert spelled == {"python"}


def test_the_readme_exports_a_module_of_pytorchs(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    import tandem_onnx
    monkeypatch.chdir(tmp_path)
    names = {"torch": torch, "model": torch.nn.Linear(8, 3), "example": torch.randn(4, 8)}
    exec(compile(snippets(DOCS.parent / "README.md")[1], "README.md, snippet 2", "exec"), names)
    assert tandem_onnx.Model("model.onnx").predict(np.zeros((5, 8), np.float32)).shape == (5, 3)


def test_calls_for_those_who_come_from_other_trainers():
    """Every call of the rows "in Python ..." in docs/coming-from.md has arguments that there are."""
    import inspect

    import tandem_onnx
    page = (DOCS / "coming-from.md").read_text(encoding="utf-8")
    calls = re.findall(r"in Python `([\w.]+)(\([^`]*\))`", page)
    assert len(calls) >= 5
    names = dict.fromkeys(("model", "generator", "module", "example_inputs"))
    for name, arguments in calls:
        if name.startswith("tandem_onnx.torch."):
            pytest.importorskip("torch", reason="PyTorch is not installed")
            import tandem_onnx.torch
        called = tandem_onnx.Model.fit if name == "fit" else eval(name, {"tandem_onnx": tandem_onnx, **vars(tandem_onnx)})
        eval(f"bind{arguments}", {**names, "bind": inspect.signature(called).bind_partial})


def test_the_readme_says_the_same_in_both_languages(tmp_path, monkeypatch, digits, capsys):
    from tandem_onnx.__main__ import program
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lenet.onnx").write_bytes((MODELS / "lenet.onnx").read_bytes())
    np.savez("digits.npz", x=digits[0], y=digits[1])
    readme = MODELS.parent / "README.md"
    environment = {**os.environ, "PATH": f"{os.path.dirname(program())}:{os.environ['PATH']}", "TANDEM_RUN_DIR": "none"}
    run = subprocess.run(["sh", "-e", "-c", snippets(readme, "sh")[0]], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    told = float(re.search(r"64 samples, loss ([\d.]+)", run.stdout)[1])
    names = {}
    exec(compile(snippets(readme)[0], "README.md", "exec"), names)
    assert names["m"].evaluate("npz:digits.npz")["loss"] == pytest.approx(told, rel=1e-2)
    assert "Training plan of lenet" in capsys.readouterr().out


def test_options_for_those_who_come_from_other_trainers(tmp_path):
    """Every command's options in the tables of docs/coming-from.md, on CPU devices or, where the row is of GPUs, on described ones: a dry
    run takes them."""
    from tandem_onnx.__main__ import program
    page = (MODELS.parent / "docs" / "coming-from.md").read_text(encoding="utf-8")
    told = [row.rsplit(" | ", 1)[1] for row in page.splitlines() if row.startswith("| ")]
    options = sorted({("GPU" in text or "cuda" in text, span) for text in told for span in re.findall(r"`(--[^`]+)`", text)})
    assert len(options) > 40
    run = [program(), "train", str(MODELS / "lenet.onnx"), "--data", "synthetic:digits,train=64,test=16", "--init", "he-normal", "--dry-run"]
    refused = []
    for gpus, text in options:
        given = [re.sub("cuda:|/GPU:", "h100:", part) for part in shlex.split(text)]
        devices = [] if "--devices" in given else ["--devices", "cpu" if "--rank" in given else "h100:0-3" if gpus else "cpu:0-3"]
        answer = subprocess.run([*run, *devices, *given], cwd=tmp_path, capture_output=True, text=True)
        if answer.returncode != 0 and text != "--resume":  # of a run that there is
            refused.append((text, answer.stderr.splitlines()[-1:]))
    assert refused == []
