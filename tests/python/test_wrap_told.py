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


class Calls(nn.Module):
    """Calls a function of (x, training)."""

    def __init__(self, function):
        super().__init__()
        self.function, self.linear = function, nn.Linear(8, 8)

    def forward(self, x):
        return self.function(self.linear(x), self.training)


def shaken(x, training):
    return x * torch.empty(x.shape[0], 1).bernoulli_(0.5) if training else x


def other_in_training(x, training):
    return 2 * F.dropout(x, 0.5) if training else x


@pytest.mark.parametrize("module, left", [
    (Calls(lambda x, training: F.alpha_dropout(x, 0.5, training)), "alpha_dropout of Calls"),
    (Calls(shaken), r"aten.bernoulli_.\w+ of Calls"),
    (Calls(other_in_training), "dropout of Calls"),
    (nn.LSTM(8, 6, num_layers=2, dropout=0.5, batch_first=True), "of LSTM"),
])
def test_random_numbers_that_are_left_out_are_told(module, left):
    x = batch_of((4, 8), 3) if isinstance(module, nn.LSTM) else batch_of((8,), 3)
    with pytest.warns(tandem.TandemWarning, match=f"random numbers of train mode are left out, for an exporter writes none: .*{left}"):
        ours = wrapped(module, x)
    first, second = (tandem_leaves(ours(x)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


def tandem_leaves(outputs):
    return torch.utils._pytree.tree_leaves(outputs)


def test_what_is_whole_has_no_warning(recwarn):
    for module, x in ((Dropping(), torch.ones(2, 64)), (Calls(lambda x, training: F.dropout(x, 0.25, training)), torch.ones(2, 8)),
                      (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), batch_of((6, 8), 3))):
        wrapped(module, x)
    assert not [w for w in recwarn if issubclass(w.category, tandem.TandemWarning)]


def test_functions_that_drop_in_a_part_that_stands_still_are_told():
    ours = wrapped(nn.Sequential(nn.Linear(8, 8), Calls(lambda x, training: F.dropout(x, 0.25, training))), batch_of((8,), 3))
    ours.module[1].eval()
    with pytest.raises(tandem.UsageError, match="1: training is False, that of the wrapped module is True"):
        ours(batch_of((8,)))
