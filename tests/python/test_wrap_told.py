"""Wrapped modules of PyTorch's: what changes between calls is read or told, and so is what does not fit."""
import copy

import pytest

import tandem_onnx as tandem
from torch_loops import Dropping, F, assert_alike, batch_of, mlp, nn, pair, resnet, torch, train, wrapped


def test_weights_are_read_at_each_call():
    ours, theirs, shape = pair("resnet")
    x = batch_of(shape)
    train(theirs, "sgd", shape)
    ours.load_state_dict(theirs.state_dict())
    ours.eval(), theirs.eval()
    with torch.no_grad():
        assert_alike([ours(x)], [theirs(x)])
        for module in (ours, theirs):
            for p in module.parameters():
                p.data.mul_(1.5)
        assert_alike([ours(x)], [theirs(x)])


@pytest.mark.parametrize("call, error, message", [
    (lambda m: m(torch.randn(4, 11)), tandem.DataError, r"input 'input' is torch.float32 \[4, 11\], expected torch.float32 \[N, 12\]"),
    (lambda m: m(torch.randn(4, 12).double()), tandem.DataError, "torch.float64"),
    (lambda m: m(torch.randn(0, 12)), tandem.DataError, r"\[0, 12\], expected torch.float32 \[N, 12\]"),
    (lambda m: m(), TypeError, "missing a required argument"),
    (lambda m: m([1.0]), tandem.UsageError, "with 1 tensors as inputs, got list"),
])
def test_what_does_not_fit_is_told(call, error, message):
    ours, _, _ = pair("mlp")
    with pytest.raises(error, match=message):
        call(ours)


@pytest.mark.parametrize("options, message", [
    ({"loss": "mse"}, "the loop is yours"), ({"memory_budget": "1MiB"}, "does not go with"), ({"micro_batches": 3}, "does not go with"),
    ({"devicez": "cpu"}, "devices"), ({"devices": "cpu", "parallel": {"pipeline": 2}}, "pipeline"),
])
def test_options_that_cannot_be_are_told(options, message):
    with pytest.raises(tandem.UsageError, match=message):
        pair("mlp", **options)


def test_a_normalization_may_stand_still_alone():
    ours, theirs, shape = pair("resnet")
    train(ours, "sgd", shape, 2), train(theirs, "sgd", shape, 2)
    for module in (ours, theirs):
        module.zero_grad()
        next(m for m in module.modules() if isinstance(m, nn.BatchNorm2d)).eval()
        module(batch_of(shape)).square().sum().backward()
    assert_alike([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])
    assert_alike(ours.buffers(), theirs.buffers())


def test_dropout_that_stands_still_alone_is_told():
    ours = wrapped(Dropping(), torch.ones(2, 64))
    ours.drop.eval()
    with pytest.raises(tandem.UsageError, match="drop: training is False"):
        ours(torch.ones(4, 64))


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(12, 4)
        self.register_buffer("shift", torch.zeros(4))
        self.register_buffer("order", torch.tensor([3, 1, 2, 0]))

    def forward(self, x):
        return self.linear(x)[:, self.order] + self.shift


def test_buffers_are_read_at_each_call_or_told():
    torch.manual_seed(1)
    module = Buffers()
    ours, theirs = wrapped(module, batch_of((12,), 3)), copy.deepcopy(module)
    for m in (ours, theirs):
        m.shift.add_(2.0)
    assert_alike([ours(batch_of((12,)))], [theirs(batch_of((12,)))])
    ours.order.copy_(torch.arange(4))
    with pytest.raises(tandem.UsageError, match="buffer 'order' has changed"):
        ours(batch_of((12,)))


def test_modes_are_left_as_they_were():
    module = resnet().train()
    module[0].bn1.eval()
    before = copy.deepcopy(module.state_dict())
    ours = wrapped(module, batch_of((3, 8, 8), 3))
    assert ours.training and module.training and not module[0].bn1.training and module[0].bn2.training
    assert all(torch.equal(a, b) for a, b in zip(before.values(), ours.state_dict().values()))


class OtherInTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(12, 4)

    def forward(self, x):
        return self.linear(x) * (2 if self.training else 1)


def test_a_module_that_is_exported_as_another_is_told():
    with pytest.raises(tandem.ModelError, match=r"(?s)output 0 \[3, 4\]: 0.5 of its norm.*the gradient of linear.weight"):
        wrapped(OtherInTraining(), batch_of((12,), 3))


def test_fewer_bits_are_checked_in_float32():
    ours, theirs, shape = pair("mlp", precision="bf16")
    assert_alike([ours(batch_of(shape))], [theirs(batch_of(shape))], 2e-2)
    assert "bf16" in str(ours.plan())


def test_it_is_neither_copied_nor_pickled():
    ours, _, _ = pair("mlp")
    with pytest.raises(tandem.UsageError, match="neither copied nor pickled"):
        copy.deepcopy(ours)


def test_dropout_that_is_left_out_is_told():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    with pytest.warns(tandem.TandemWarning, match="1 calls of F.dropout, or of attention with dropout, are left out"):
        ours = wrapped(layer, batch_of((6, 8), 3))
    assert not torch.equal(ours(batch_of((6, 8))), ours(batch_of((6, 8))))  # by its three torch.nn.Dropout


def test_what_is_whole_has_no_warning(recwarn):
    wrapped(Dropping(), torch.ones(2, 64))
    assert not [w for w in recwarn if issubclass(w.category, tandem.TandemWarning)]
