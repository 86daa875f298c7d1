"""Modules of PyTorch's whose passes are planned: loops of the caller's own compute what PyTorch computes."""
import copy
import gc

import pytest

import tandem_onnx as tandem

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
from torch import nn
from torch.nn import functional as F

from tandem_onnx.torch import wrap

BATCH, STEPS = 6, 3
TOLERANCE = 1e-5  # of the difference's norm over the norm


def difference(found, wanted):
    return ((found - wanted).norm() / wanted.norm().clamp_min(1e-12)).item()


def assert_alike(found, wanted, tolerance=TOLERANCE):
    pairs = list(zip(found, wanted, strict=True))
    differ = [(i, difference(a.detach().float(), b.detach().float())) for i, (a, b) in enumerate(pairs)]
    assert max((d for _, d in differ), default=0) <= tolerance, differ


def wrapped(module, *example, **options):
    options = {"devices": "cpu", "autotune": False, **options}
    return wrap(module, example if len(example) > 1 else example[0], **options)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 6, batch_first=True), nn.Linear(6, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Tied(nn.Module):
    """The table of words makes the scores, too: by the same tensor under two names."""

    def __init__(self):
        super().__init__()
        self.words, self.mix, self.scores = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 11, bias=False)
        self.scores.weight = self.words.weight

    def forward(self, x):
        return self.scores(torch.tanh(self.mix(self.words(x).mean(1))))


def mlp():
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(16 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10))


def resnet():
    return nn.Sequential(Residual(3, 8, 1), Residual(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5))


MODULES = {"mlp": (mlp, (12,)), "lenet": (lenet, (1, 24, 24)), "resnet": (resnet, (3, 8, 8)), "transformer": (Transformer, (6, 8)),
           "lstm": (Lstm, (6, 8)), "tied": (Tied, "words")}
# Adam divides by the gradient: that of the attention's key bias is zero but for rounding, which a larger epsilon keeps small
OPTIMIZERS = {"sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01), "adamw": lambda p: torch.optim.AdamW(p, 0.01, eps=1e-4)}


def batch_of(shape, size=BATCH, seed=2):
    generator = torch.Generator().manual_seed(seed)
    if shape == "words":
        return torch.randint(11, (size, 6), generator=generator)
    return torch.randn(size, *shape, generator=generator)


def train(module, make, shape, steps=STEPS, clip=None, sizes=(BATCH,)):
    """Losses of a loop of the caller's own."""
    optimizer = OPTIMIZERS[make](module.parameters())
    losses = []
    for step in range(steps):
        x = batch_of(shape, sizes[step % len(sizes)], seed=step)
        y = torch.randint(5, (len(x),), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def pair(name, **options):
    """The module wrapped, and a copy of it that PyTorch computes."""
    make, shape = MODULES[name]
    torch.manual_seed(1)
    module = make()
    twin = copy.deepcopy(module)
    return wrapped(module, batch_of(shape, 3), **options), twin, shape


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODULES)
def test_steps_are_pytorchs(name, optimizer):
    ours, theirs, shape = pair(name)
    assert_alike(train(ours, optimizer, shape, clip=1.0), train(theirs, optimizer, shape, clip=1.0))
    assert_alike(ours.parameters(), theirs.parameters())
    assert_alike(ours.buffers(), theirs.buffers())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.eval(), theirs.eval()
    x = batch_of(shape)
    with torch.no_grad():
        assert_alike([ours(x)], [theirs(x)])


class TwoWays(nn.Module):
    """Two inputs, and outputs in a dict: one in a tuple, one of class numbers, which has no gradient."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(7, 8), nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, a, b):
        both = torch.tanh(self.left(a)) * torch.sigmoid(self.right(b))
        scores = self.head(both)
        return {"scores": scores, "both": (both,), "best": scores.argmax(1)}


def two_ways():
    torch.manual_seed(1)
    module = TwoWays()
    twin = copy.deepcopy(module)
    return wrapped(module, batch_of((7,), 3), batch_of((4,), 3)), twin


def test_inputs_and_outputs_are_the_modules():
    ours, theirs = two_ways()
    results = []
    for module in (ours, theirs):
        a, b = batch_of((7,), seed=3).requires_grad_(), batch_of((4,), seed=4).requires_grad_()
        given = module(a, b=b)
        assert set(given) == {"scores", "both", "best"} and isinstance(given["both"], tuple)
        assert not given["best"].requires_grad
        (given["scores"].square().mean() + given["both"][0].sum()).backward()
        results.append([given["scores"], given["both"][0], a.grad, b.grad, *[p.grad for p in module.parameters()]])
        assert torch.equal(given["best"], given["scores"].argmax(1))
    assert_alike(*results)


def test_an_output_that_no_loss_takes_adds_nothing():
    ours, theirs = two_ways()
    for module in (ours, theirs):
        module(batch_of((7,)), batch_of((4,)))["both"][0].sum().backward()
    assert theirs.head.weight.grad is None and not ours.head.weight.grad.any()
    assert_alike([ours.left.weight.grad, ours.right.bias.grad], [theirs.left.weight.grad, theirs.right.bias.grad])


def test_gradients_of_inputs_alone():
    ours, theirs, shape = pair("lenet")
    found = []
    for module in (ours, theirs):
        module.requires_grad_(False)
        x = batch_of(shape).requires_grad_()
        module(x).square().sum().backward()
        found.append([x.grad])
        assert all(p.grad is None for p in module.parameters())
    assert_alike(*found)


def test_frozen_parameters_have_no_gradient_until_they_are_freed():
    ours, theirs, shape = pair("resnet")
    for trained in (False, True):
        for module in (ours, theirs):
            module.zero_grad()
            list(module.parameters())[0].requires_grad_(trained)
            module(batch_of(shape)).square().sum().backward()
            assert (list(module.parameters())[0].grad is not None) is trained
        pairs = [(a.grad, b.grad) for a, b in zip(ours.parameters(), theirs.parameters()) if b.grad is not None]
        assert_alike(*zip(*pairs))


@pytest.mark.parametrize("name", ["resnet", "lstm"])
def test_eval_mode_has_gradients_too(name):
    ours, theirs, shape = pair(name)
    train(ours, "sgd", shape, steps=2), train(theirs, "sgd", shape, steps=2)
    before = copy.deepcopy(list(ours.buffers()))
    results = []
    for module in (ours, theirs):
        module.eval()
        module.zero_grad()
        x = batch_of(shape).requires_grad_()
        given = module(x)
        given.square().sum().backward()
        results.append([given, x.grad, *[p.grad for p in module.parameters()]])
    assert_alike(*results)
    assert all(torch.equal(a, b) for a, b in zip(before, ours.buffers()))
    assert ours.training is ours.module.training is False


def test_batches_of_any_size_each_with_a_plan():
    ours, theirs, shape = pair("resnet", plans=2)
    sizes = (6, 4, 6, 1 + 1, 6, 5)
    assert_alike(train(ours, "sgd", shape, 6, sizes=sizes), train(theirs, "sgd", shape, 6, sizes=sizes))
    assert_alike(ours.buffers(), theirs.buffers())
    assert len(ours._pool.passes) == 2


def test_gradients_add_up_over_backward_passes():
    ours, theirs, shape = pair("mlp")
    for module in (ours, theirs):
        for seed in range(3):
            module(batch_of(shape, seed=seed)).square().mean().backward()
    assert_alike([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])


@pytest.mark.parametrize("name", ["mlp", "resnet"])
def test_forward_passes_that_wait_have_memory_of_their_own(name):
    ours, theirs, shape = pair(name)
    for module in (ours, theirs):
        a, b, c = (module(batch_of(shape, seed=seed)) for seed in range(3))
        with torch.no_grad():
            module(batch_of(shape, seed=9))
        c.sum().backward()
        ((a - b).square().sum() + a.sum()).backward()
    assert_alike([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])
    assert_alike(ours.buffers(), theirs.buffers())


def test_too_many_that_wait_are_told():
    ours, _, shape = pair("mlp", pending=2)
    kept = [ours(batch_of(shape)) for _ in range(2)]
    with pytest.raises(tandem.UsageError, match="2 forward passes wait for their backward pass.*pending=3"):
        ours(batch_of(shape))
    del kept[0]
    gc.collect()
    ours(batch_of(shape)).sum().backward()
    for _ in range(5):  # nobody keeps these
        ours(batch_of(shape))


def test_a_graph_that_is_retained_can_be_gone_back_again():
    ours, theirs, shape = pair("resnet")
    for module in (ours, theirs):
        given = module(batch_of(shape))
        given.square().sum().backward(retain_graph=True)
        with torch.no_grad():
            for p in module.parameters():
                p.data += 0.25  # the gradient is that at the weights of the forward pass; .data: PyTorch does not look
        if module is ours:
            given.sum().backward()
    again = copy.deepcopy(theirs)
    with torch.no_grad():
        for p in again.parameters():
            p.data -= 0.25
            p.grad = None
    again(batch_of(shape)).sum().backward()
    assert_alike([p.grad for p in ours.parameters()], [p.grad + q.grad for p, q in zip(theirs.parameters(), again.parameters())], 2e-5)
    assert_alike(ours.buffers(), theirs.buffers())


def test_going_back_a_second_time_is_told():
    ours, _, shape = pair("mlp")
    given = ours(batch_of(shape)).sum()
    given.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        given.backward()
    given = ours(batch_of(shape)).sum()
    given.backward(retain_graph=True)
    ours(batch_of(shape))
    with pytest.raises(RuntimeError, match="after another forward pass"):
        given.backward()


def test_gradients_of_gradients_are_refused():
    ours, _, shape = pair("mlp")
    x = batch_of(shape).requires_grad_()
    (first,) = torch.autograd.grad(ours(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        first.sum().backward()


def test_lbfgs_calls_as_often_as_it_likes():
    ours, theirs, shape = pair("mlp")
    x, y = batch_of(shape), torch.arange(BATCH) % 5
    losses = []
    for module in (ours, theirs):
        optimizer = torch.optim.LBFGS(module.parameters(), lr=0.1, max_iter=4)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            return loss
        losses.append(torch.stack([optimizer.step(closure).detach() for _ in range(2)]))
    assert_alike([losses[0], *ours.parameters()], [losses[1], *theirs.parameters()])


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.drop = nn.Parameter(torch.ones(64)), nn.Dropout(0.25)

    def forward(self, x):
        return self.drop(x * self.scale)


def test_dropout_drops_in_train_mode():
    torch.manual_seed(1)
    ours = wrapped(Dropping(), torch.ones(2, 64))
    x = torch.ones(32, 64, requires_grad=True)
    first, second = ours(x), ours(x)
    assert not torch.equal(first, second)
    for y in (first, second):
        (x.grad,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(x.grad, y.detach())  # the same places, by the same factor
        assert set(y.detach().unique().tolist()) == {0.0, torch.tensor(4 / 3).item()}
        assert 0.2 < (y == 0).float().mean() < 0.3
    ours.eval()
    assert torch.equal(ours(x), x)
    with torch.no_grad():
        assert torch.equal(ours(x), x)


def test_samples_may_lie_along_another_axis():
    torch.manual_seed(1)
    module = nn.LSTM(8, 6)  # [steps, samples, 8] to [steps, samples, 6] and two states [1, samples, 6]
    twin = copy.deepcopy(module)
    ours = wrapped(module, torch.randn(5, 3, 8), batch_axis=1)
    results = []
    for module in (ours, twin):
        x = batch_of((4, 8), 5).requires_grad_()
        y, (h, c) = module(x)
        (y.square().sum() + (h * c).sum()).backward()
        results.append([y, h, c, x.grad, *[p.grad for p in module.parameters()]])
    assert_alike(*results)


@pytest.mark.parametrize("name", ["lenet", "transformer"])
def test_devices_share_the_samples(name):
    ours, theirs, shape = pair(name, devices="cpu:0-1")
    assert_alike(train(ours, "sgd", shape, sizes=(6, 5)), train(theirs, "sgd", shape, sizes=(6, 5)))
    assert_alike(ours.parameters(), theirs.parameters())


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
