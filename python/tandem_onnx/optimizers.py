"""Optimizers with the names and arguments of PyTorch and Keras. `learning_rate=None` is the optimizer's usual rate."""


class Optimizer:
    """An optimizer by its name in `tandem train --help optimizer`, with its numbers as the options of that help are called.

    `Optimizer("lion", 1e-4, beta2=0.98)` is any of them; the classes below are the best known.
    """

    def __init__(self, name, learning_rate=None, **numbers):
        self.options = {"optimizer": name, "lr": learning_rate, **numbers}

    def __repr__(self):
        given = ", ".join(f"{k}={v!r}" for k, v in self.options.items() if k != "optimizer" and v is not None)
        return f"{self.options['optimizer']}({given})"


class SGD(Optimizer):
    """w -= rate * v, v = momentum * v + gradient."""

    def __init__(self, learning_rate=None, momentum=0.0, nesterov=False, weight_decay=0.0, dampening=0.0):
        super().__init__("sgd", learning_rate, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, dampening=dampening)


class Adam(Optimizer):
    """Adam; `weight_decay` goes by way of the gradient."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, amsgrad=False):
        super().__init__("adam", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay, amsgrad=amsgrad)


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01, amsgrad=False):
        super().__init__("adamw", learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay, amsgrad=amsgrad)


class RMSprop(Optimizer):
    """The gradient divided by the root of its running mean square; `epsilon=None` is the usual one."""

    def __init__(self, learning_rate=None, rho=0.9, momentum=0.0, epsilon=None, weight_decay=0.0, centered=False):
        super().__init__("rmsprop", learning_rate, rho=rho, momentum=momentum, epsilon=epsilon, weight_decay=weight_decay, centered=centered)


class Adagrad(Optimizer):
    """The gradient divided by the root of the sum of its squares; `epsilon=None` is the usual one."""

    def __init__(self, learning_rate=None, epsilon=None, weight_decay=0.0, rate_decay=0.0):
        super().__init__("adagrad", learning_rate, epsilon=epsilon, weight_decay=weight_decay, rate_decay=rate_decay)


class Lion(Optimizer):
    """The sign of a momentum."""

    def __init__(self, learning_rate=None, beta1=0.9, beta2=0.99, weight_decay=0.0):
        super().__init__("lion", learning_rate, beta1=beta1, beta2=beta2, weight_decay=weight_decay)
