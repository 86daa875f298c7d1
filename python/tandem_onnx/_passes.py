"""Plans of a forward and a backward pass, kept by what they are for, and who has their memory."""
import atexit
import collections
import weakref

from ._errors import UsageError

_planned = weakref.WeakSet()  # all that have a `planned`


@atexit.register
def _release():
    """Graphs that the caller keeps to the end may outlive the interpreter's own objects; what they hold of the library must not."""
    for one in list(_planned):
        one.planned = None


class Pass:
    """A planned pass with its memory. `number`: of the last forward pass in it."""

    def __init__(self, planned):
        self.planned, self.number, self.busy = planned, 0, False
        _planned.add(self)
        self.parameters = dict(planned.parameters())  # {name: shape}


class Lease:
    """Holds a pass from its forward to its backward, or until nobody can ask for gradients any more."""

    def __init__(self, taken, number):
        self.taken, self.number = taken, number
        taken.busy, taken.number = True, number
        self.held = True

    def give_back(self):
        if self.held:
            self.taken.busy = self.held = False

    __del__ = give_back

    def take_again(self):
        """Whether the memory is still that of this forward pass, and nobody else has it."""
        if not self.held and not self.taken.busy and self.taken.number == self.number:
            self.taken.busy = self.held = True
        return self.held


class File:
    """An exported module, of which passes are planned."""

    def __init__(self, planned):
        self.planned = planned
        _planned.add(self)

    def plan(self, mode, batch, *names):
        return self.planned.plan(batch, *map(list, names), mode)


class Pool:
    """`plans` are kept at once, those used last; `pending` forward passes of one plan may wait for their backward pass."""

    def __init__(self, make, plans, pending):
        self.make, self.plans, self.pending = make, plans, pending
        self.passes = collections.OrderedDict()  # by key: a list
        self.count = 0

    def take(self, key):
        """A Lease of a pass planned for `key`, which is what `make` takes."""
        own = self.passes.setdefault(key, [])
        self.passes.move_to_end(key)
        self.count += 1
        for one in own:
            if not one.busy:
                return Lease(one, self.count)
        if len(own) >= self.pending:
            raise UsageError(f"{len(own)} forward passes wait for their backward pass, each with memory of its own: drop their outputs, call "
                             f"the module under torch.no_grad(), or wrap it with pending={self.pending + 1} or more")
        own.append(Pass(own[0].planned.again() if own else self.make(*key)))
        for old in list(self.passes)[:-self.plans]:  # those in use stay with their leases
            del self.passes[old]
        return Lease(own[-1], self.count)
