"""Every snippet of docs/python.md, in its order and in one folder, as a reader would run it."""
import os
import re
import shlex
import subprocess

import numpy as np
import pytest

from conftest import MODELS

PAGE = MODELS.parent / "docs" / "python.md"


def snippets(page, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_snippet_of_the_page_runs(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="the page has modules of PyTorch")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lenet.onnx").write_bytes((MODELS / "lenet.onnx").read_bytes())
    code = snippets(PAGE)
    assert len(code) >= 8
    names = {"__name__": "page"}
    for number, text in enumerate(code, 1):
        exec(compile(text, f"docs/python.md, snippet {number}", "exec"), names)


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
