// DropoutTraining(x, random, samples?) {ratio, layer, axis?, outer?, inner?, part?} → y: which random word an element takes does not
// depend on the layout, so that the gradient drops what was dropped.
#include "kernels/cpu/native/native.h"
#include "kernels/cpu/native/stored.h"
#include "kernels/sample_runs.h"

namespace tandem::native {
namespace {

constexpr std::int64_t chunk = 512;  // elements whose random words are made at a time

// The row-major number of each element of a layout's memory; of padding, some number.
class Numbering {
 public:
  explicit Numbering(const Operand& x) : flat_(x.layout.is_row_major()) {
    if (flat_) return;
    std::vector<std::int64_t> number(static_cast<std::size_t>(x.shape.rank()), 1);
    for (int i = x.shape.rank() - 2; i >= 0; --i)
      number[static_cast<std::size_t>(i)] = number[static_cast<std::size_t>(i) + 1] * x.shape[i + 1];
    for (const PhysicalDim& d : physical_dims(x.shape, x.layout))
      loops_.push_back({d.size, number[static_cast<std::size_t>(d.axis)] * d.step});
  }
  bool flat() const { return flat_; }
  void numbers(std::int64_t begin, std::int64_t n, std::int64_t base, std::int64_t* to) const {
    const Loop inner = loops_.back();
    while (n > 0) {
      std::int64_t rest = begin / inner.size, at = base;
      const std::int64_t first = begin % inner.size, run = std::min(n, inner.size - first);
      for (std::size_t k = loops_.size() - 1; k-- > 0; rest /= loops_[k].size) at += rest % loops_[k].size * loops_[k].stride;
      for (std::int64_t i = 0; i < run; ++i) to[i] = at + (first + i) * inner.stride;
      to += run;
      begin += run;
      n -= run;
    }
  }

 private:
  struct Loop {
    std::int64_t size, stride;
  };
  bool flat_;
  std::vector<Loop> loops_;
};

// Runs loop(x, y, n) from and to memory, 16-bit elements by way of a chunk of float32.
template <class S, class T, class Loop>
void through(const vector::Table& table, const S* x, S* y, std::int64_t n, const Loop& loop) {
  if constexpr (std::is_same_v<S, T>) {
    loop(x, y, n);
  } else {
    T wide[chunk];
    table.widen_bfloat16(wide, x, nullptr, nullptr, n, nullptr);
    loop(wide, wide, n);
    table.narrow_bfloat16(y, wide, nullptr, nullptr, n, nullptr);
  }
}

}  // namespace

Descriptions describe_dropout_training(const KernelRequest& request) {
  const SampleRuns runs(*request.attributes, request.inputs[0].shape);
  // Samples that do not lie one behind the other are counted in row-major order alone.
  const Operand x =
      runs.consecutive() ? with_layout(request.inputs[0], layout_or_row_major(request.inputs[0])) : row_major(request.inputs[0]);
  if (x.layout.opaque()) return {};
  const std::int64_t n = physical_elements(x.shape, x.layout);
  const double ratio = static_cast<double>(request.attributes->real("ratio", 0.5F));
  const auto layer = static_cast<std::uint32_t>(request.attributes->integer("layer", 0));
  const int parts = threads_for(n, request.options.threads, 8192);
  KernelDescription d{.kernel = "native.dropout",
                      .inputs = request.inputs,
                      .outputs = {with_layout(request.outputs[0], x.layout)},
                      .efficiency = 0.3,
                      .in_place = {{0, 0}}};
  for (Operand& in : d.inputs) in = with_layout(in, layout_or_row_major(in));
  d.inputs[0] = x;
  const bool known = visit_stored(x.dtype, [&]<class S, class T>() {
    d.make = [=] {
      const Numbering numbering(x);
      const vector::Table& table = vector_table();
      // A ratio of 1 drops all: no word reaches 2³², so the scale does it.
      const auto threshold = static_cast<std::uint32_t>(std::min(ratio * 0x1p32, 0xffffffffp0));
      const T scale = ratio < 1 ? static_cast<T>(1 / (1 - ratio)) : T(0);
      return make_kernel([=, &table](const Memory& m) {
        const auto* const random = m.in<std::int64_t>(1);
        const auto seed = static_cast<std::uint64_t>(random[0]), step = static_cast<std::uint64_t>(random[1]);
        const vector::PhiloxState state{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ layer},
                                        {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)}};
        const std::int64_t first = runs.counted ? random[2] : 0;
        parallel(parts, [&](int k) {
          const Range r = part_of((n + chunk - 1) / chunk, k, parts);
          std::uint32_t words[chunk];
          std::int64_t elements[chunk];
          for (std::int64_t c = r.begin; c < r.end; ++c) {
            const std::int64_t begin = c * chunk, count = std::min(chunk, n - begin);
            if (!runs.consecutive()) {
              for (std::int64_t i = 0; i < count;) {
                const std::int64_t whole = runs.of_whole(begin + i), run = whole / runs.inside, at = whole % runs.inside,
                                   length = std::min({count - i, runs.inside - at, runs.left_of_run(begin + i)});
                table.philox_run(words + i, (first + run % runs.samples) * runs.sample() + run / runs.samples * runs.inside + at, length,
                                 state);
                i += length;
              }
            } else if (numbering.flat()) {
              table.philox_run(words, first * runs.sample() + begin, count, state);
            } else {
              numbering.numbers(begin, count, first * runs.sample(), elements);
              table.philox_at(words, elements, count, state);
            }
            through<S, T>(table, m.in<S>(0) + begin, m.out<S>(0) + begin, count,
                          [&](const T* from, T* to, std::int64_t k) { table.of<T>().drop(from, to, words, k, threshold, scale); });
          }
        });
      })();
    };
  });
  return known ? Descriptions{d} : Descriptions{};
}

}  // namespace tandem::native
