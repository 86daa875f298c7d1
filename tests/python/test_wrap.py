"""Modules of PyTorch's whose passes are planned: loops of the caller's own compute what PyTorch computes."""
import copy
import gc

import pytest

import tandem_onnx as tandem
from torch_loops import BATCH, MODULES, OPTIMIZERS, Dropping, F, assert_alike, batch_of, lenet, mlp, nn, pair, resnet, torch, train, wrapped


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


class Functions(nn.Module):
    """Drops by a function of (x, training), between calls that never drop."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return F.dropout(self.function(F.dropout(x, 0.5, training=False), self.training), 0.5, False)


class WhileTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return F.dropout(x * self.scale, p=0.25 if self.training else 0.0, training=True)


@pytest.mark.parametrize("module, channels", [
    (Functions(lambda x, training: F.dropout(x, 0.25, training)), False),
    (Functions(lambda x, training: F.dropout(x + 0, 0.25, training=training, inplace=True)), False),
    (Functions(lambda x, training: torch.dropout(x, 0.25, training)), False),
    (Functions(lambda x, training: F.dropout(x, 0.25) if training else x), False),
    (Functions(lambda x, training: F.dropout2d(x, 0.25, training)), True),
    (nn.Dropout2d(0.25), True),
    (WhileTraining(), False),
])
def test_functions_drop_in_train_mode(module, channels):
    ours = wrapped(module, torch.ones(2, 64, 3, 5))
    x = torch.ones(32, 64, 3, 5, requires_grad=True)
    first, second = ours(x), ours(x)
    assert not torch.equal(first, second)
    for y in (first, second):
        (x.grad,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(x.grad, y.detach())
        assert set(y.detach().unique().tolist()) == {0.0, torch.tensor(4 / 3).item()}
        assert 0.22 < (y == 0).float().mean() < 0.28
        whole = (y == y[:, :, :1, :1]).all(-1).all(-1).float().mean()  # channels
        assert whole == 1 if channels else whole < 0.1
    ours.eval()
    assert torch.equal(ours(x), x)


def test_what_drops_in_both_modes_does_so():
    ours = wrapped(Functions(lambda x, training: F.dropout(F.dropout(x, 0.5), 0.2, training)), torch.ones(2, 64))
    kept = []
    for mode in (True, False):
        ours.train(mode)
        kept.append((ours(torch.ones(64, 64)) != 0).float().mean().item())
    assert kept == pytest.approx([0.4, 0.5], abs=0.03)


@pytest.mark.parametrize("mask", [None, "causal", "bool", "float"])
def test_attention_drops_its_weights_in_train_mode(mask):
    given = {None: {}, "causal": {"is_causal": True}, "bool": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril()},
             "float": {"attn_mask": torch.linspace(-1, 1, 25).reshape(5, 5)}}[mask]

    class Module(nn.Module):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5 if self.training else 0.0, **given)

    ours, theirs = wrapped(Module(), *[batch_of((2, 5, 8), 3)] * 3), Module().eval()
    q, k, v = (batch_of((2, 5, 8), 400, seed=i) for i in (1, 2, 3))
    x = torch.cat([q[:1]] * 400), torch.cat([k[:1]] * 400), torch.cat([v[:1]] * 400)
    assert not torch.equal(ours(*x), ours(*x))
    mean, wanted = ours(*x).mean(0), theirs(*x)[0]
    assert (mean - wanted).norm() < 0.15 * wanted.norm()  # what is dropped comes to naught on average
    ours.eval()
    assert_alike([ours(q, k, v)], [theirs(q, k, v)])


@pytest.mark.parametrize("layer, inputs", [
    (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), 1),
    (nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True), 3),
])
def test_layers_of_attention_drop_as_often_as_pytorchs(layer, inputs):
    twin = copy.deepcopy(layer)
    ours = wrapped(layer, *[batch_of((6, 8), 3)] * inputs)
    x = [torch.cat([batch_of((6, 8), 1, seed=2)] * 600)] * inputs
    first = [m(*x) if inputs == 1 else m(*x)[0] for m in (ours, twin.train())]
    spread = [y.std(0).norm() for y in first]
    assert spread[0] > 0 and abs(spread[0] / spread[1] - 1) < 0.1, spread
    ours.eval(), twin.eval()
    assert_alike(*[[m(*x) if inputs == 1 else m(*x)[0]] for m in (ours, twin)])


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
