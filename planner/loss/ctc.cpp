// With the labels l_1, l_2, ... as blank, l_1, blank, l_2, ..., blank (L = 2S + 1 places) and y_t(k) the logarithm of the
// probability that t holds place k's class:
//   a_0(k) = y_0(k) for k < 2, impossible for others
//   a_t(k) = y_t(k) + log(exp a_t-1(k) + exp a_t-1(k-1) + exp a_t-1(k-2)), the last only where the classes of k and k-2 differ
//   loss = -log(exp a(2s) + exp a(2s - 1)) at the last t, with s labels in the sequence
#include "planner/loss/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

constexpr double impossible = -1e30;  // a logarithm: finite, so that no gradient is 0 times infinity

Tensor row(const std::vector<double>& values, DType dtype) {
  Tensor t(TensorType{DType::float64, Shape{1, std::ssize(values)}});
  std::copy(values.begin(), values.end(), t.write<double>().begin());
  return t.cast(dtype);
}

class Composing {
 public:
  Composing(GraphBuilder& b, ValueId x, ValueId t, const Ctc& o)
      : b_(b),
        o_(o),
        n_(b.shape(x)[0]),
        t_(b.shape(x)[1]),
        classes_(b.shape(x)[2]),
        s_(b.shape(t)[1]),
        places_(2 * s_ + 1),
        dtype_(b.type(x).dtype),
        x_(x),
        labels_(t) {}

  ValueId run() {
    const std::int64_t blank = o_.blank < 0 ? o_.blank + classes_ : o_.blank;
    const ValueId padded = b_.emit("Equal", {labels_, whole(o_.padding)});
    const ValueId blanks = b_.add(b_.mul(labels_, whole(0)), whole(blank));
    const ValueId real = b_.emit("Where", {padded, blanks, labels_});
    const ValueId pairs = b_.reshape(b_.emit("Concat", {column(blanks), column(real)}, axis(2)), Shape{n_, 2 * s_});
    const ValueId first = part(blanks, 0, 1), extended = b_.emit("Concat", {pairs, first}, axis(1));
    count_ = b_.reduce_sum(b_.add(b_.neg(cast(padded)), 1.0), {1}, false);
    // Two places further only where another class stands, which a blank never does.
    const ValueId before = b_.emit("Concat", {first, first, part(extended, 0, places_ - 2)}, axis(1));
    same_ = b_.mul(cast(b_.emit("Equal", {extended, before})), impossible);
    return loss(sums(emissions(extended)));
  }

 private:
  ValueId whole(std::int64_t v) const { return b_.scalar(static_cast<double>(v), DType::int64); }
  ValueId cast(ValueId v) const { return b_.emit("Cast", {v}, {{"to", static_cast<std::int64_t>(dtype_)}}); }
  ValueId constant(const std::vector<double>& values, DType dtype) const {
    return b_.graph().add_constant(concat("ctc/constant", b_.graph().values.size()), row(values, dtype));
  }
  static Attributes axis(std::int64_t a) { return {{"axis", a}}; }
  ValueId column(ValueId v) const { return b_.reshape(v, Shape{n_, s_, 1}); }
  ValueId part(ValueId v, std::int64_t begin, std::int64_t end) const {
    return b_.emit("Slice", {v}, {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{1}}, {"steps", Ints{1}}});
  }

  // y, by time: T of [N,L]
  std::vector<ValueId> emissions(ValueId extended) const {
    const ValueId log_p = b_.emit("LogSoftmax", {x_}, axis(-1));
    const ValueId indices = b_.broadcast_to(b_.reshape(extended, Shape{n_, 1, places_}), Shape{n_, t_, places_});
    const ValueId all = b_.emit("GatherElements", {log_p, indices}, axis(2));
    std::vector<ValueId> list;
    for (std::int64_t t = 0; t < t_; ++t) list.push_back(b_.reshape(part(all, t, t + 1), Shape{n_, places_}));
    return list;
  }

  // a at the last place
  ValueId sums(const std::vector<ValueId>& y) const {
    std::vector<double> start(static_cast<std::size_t>(places_), impossible);
    std::fill_n(start.begin(), std::min<std::size_t>(2, start.size()), 0.0);
    ValueId a = b_.add(y[0], constant(start, dtype_));
    const ValueId none = b_.add(b_.mul(cast(part(labels_, 0, 1)), 0.0), impossible);  // [N,1]
    for (std::size_t t = 1; t < y.size(); ++t) {
      const ValueId one = b_.emit("Concat", {none, part(a, 0, places_ - 1)}, axis(1));
      const ValueId two = b_.add(b_.emit("Concat", {none, part(one, 0, places_ - 1)}, axis(1)), same_);
      const ValueId top = b_.emit("Max", {b_.emit("Max", {a, one}), two});
      const auto above = [&](ValueId v) { return b_.emit("Exp", {b_.sub(v, top)}); };
      a = b_.add(b_.add(top, b_.emit("Log", {b_.add(b_.add(above(a), above(one)), above(two))})), y[t]);
    }
    return a;
  }

  ValueId loss(ValueId a) const {
    std::vector<double> numbers;
    for (std::int64_t k = 0; k < places_; ++k) numbers.push_back(static_cast<double>(k));
    // 0 and 1 at the two last places
    const ValueId from_end = b_.sub(b_.reshape(b_.mul(count_, 2.0), Shape{n_, 1}), constant(numbers, dtype_));
    const ValueId out = b_.emit("Greater", {b_.emit("Abs", {b_.add(from_end, -0.5)}), b_.scalar(0.75, dtype_)});
    const ValueId ends = b_.add(a, b_.mul(cast(out), impossible));
    const ValueId top = b_.emit("ReduceMax", {ends}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
    const ValueId sum = b_.reduce_sum(b_.emit("Exp", {b_.sub(ends, b_.reshape(top, Shape{n_, 1}))}), {1}, false);
    ValueId loss = b_.neg(b_.add(top, b_.emit("Log", {sum})));
    const ValueId beyond = b_.emit("Greater", {loss, b_.scalar(-impossible / 10, dtype_)});
    loss = b_.emit("Where", {beyond, b_.scalar(o_.zero_infinity ? 0 : std::numeric_limits<double>::infinity(), dtype_), loss});
    return o_.per_label ? b_.div(loss, b_.emit("Max", {count_, b_.scalar(1, dtype_)})) : loss;
  }

  GraphBuilder& b_;
  const Ctc& o_;
  const std::int64_t n_, t_, classes_, s_, places_;
  const DType dtype_;
  const ValueId x_, labels_;
  ValueId same_, count_;
};

}  // namespace

ValueId ctc(GraphBuilder& b, ValueId x, ValueId t, const Ctc& options) { return Composing(b, x, t, options).run(); }

}  // namespace tandem
