// Losses and metrics on lines of scores.
#pragma once
#include "kernels/cuda/bodies/pack.h"
#include "kernels/cuda/bodies/softmax.h"

namespace tandem::cuda {

TANDEM_DEVICE std::int64_t read_label(const void* labels, bool wide, std::int64_t i) {
  return wide ? static_cast<const std::int64_t*>(labels)[i] : static_cast<const std::int32_t*>(labels)[i];
}

template <int width>
struct Width {};

// Calls f(c, Width<w>()) for the packs of w elements from c on, of a row of `classes`, that this thread has: single elements up to
// the first whole pack and behind the last, as rows of odd lengths begin anywhere.
template <int threads, class T, class F>
TANDEM_DEVICE void for_row(int thread, std::int64_t base, std::int64_t classes, F&& f) {
  constexpr int width = full_pack<T>;
  const std::int64_t before = (width - base % width) % width, head = before < classes ? before : classes, packs = (classes - head) / width;
  for (std::int64_t c = thread; c < head; c += threads) f(c, Width<1>{});
  for (std::int64_t i = thread; i < packs; i += threads) f(head + i * width, Width<width>{});
  for (std::int64_t c = head + packs * width + thread; c < classes; c += threads) f(c, Width<1>{});
}

// Row r of the softmax cross-entropy of classes: losses[r] = scale · (log Σ eˣ − x[label]) and dlogits = scale · (softmax(x) − [label]).
// Logits are read twice. dlogits may be their memory.
template <class T>
struct CrossEntropyBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  using C = Compute<T>;
  const T* logits;  // of 16 bytes' alignment, as dlogits
  const void* labels;
  C* losses;
  T* dlogits;
  std::int64_t classes;
  std::int64_t ignored;
  bool wide, ignores;
  float scale;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t row = t.block(), base = row * classes;
    const std::int64_t label = read_label(labels, wide, row);
    const bool skipped = ignores && label == ignored;
    const bool outside = !skipped && (label < 0 || label >= classes);
    const int thread = t.thread();
    C top = -C(INFINITY), sum = 0;  // of what this thread has read: the largest, and Σ e^(x − top)
    for_row<threads, T>(thread, base, classes, [&]<int width>(std::int64_t c, Width<width>) {
      const Pack<T, width> pack = read_pack<width>(logits, (base + c) / width);
      C largest = top;
      for (int i = 0; i < width; ++i) largest = larger(largest, load(pack.v[i]));
      if (largest > top) sum *= exp(top - largest);
      top = largest;
      for (int i = 0; i < width; ++i) sum += load(pack.v[i]) == top ? C(1) : exp(load(pack.v[i]) - top);
    });
    const C all = combine_block<threads, 0>(t, top, [](C a, C b) { return larger(a, b); });
    sum = combine_block<threads, 1>(t, top == all ? sum : sum * exp(top - all), [](C a, C b) { return a + b; });
    if (thread == 0)
      losses[row] = skipped ? C(0) : outside ? C(NAN) : static_cast<C>(scale) * (log(sum) - (load(logits[base + label]) - all));
    t.sync();  // dlogits may be the logits
    const C factor = static_cast<C>(scale) / sum;
    for_row<threads, T>(thread, base, classes, [&]<int width>(std::int64_t c, Width<width>) {
      Pack<T, width> pack = read_pack<width>(logits, (base + c) / width);
      for (int i = 0; i < width; ++i) {
        const C gradient = exp(load(pack.v[i]) - all) * factor - (c + i == label ? static_cast<C>(scale) : C(0));
        pack.v[i] = store<T>(skipped ? C(0) : outside ? C(NAN) : gradient);
      }
      write_pack(dlogits, (base + c) / width, pack);
    });
  }
};

// The same with a weight w for every class, dense labels: losses[r] = scale · Σ w · (log Σ eˣ − x), dlogits = scale · (softmax(x) · Σ w −
// w).
template <class T>
struct DenseCrossEntropyBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  const T *logits, *dense;
  Compute<T>* losses;
  T* dlogits;
  std::int64_t classes;
  float scale;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const std::int64_t row = t.block(), base = row * classes;
    C top = -C(INFINITY);
    for (std::int64_t c = t.thread(); c < classes; c += threads) top = larger(top, load(logits[base + c]));
    top = combine_block<threads, 0>(t, top, [](C a, C b) { return larger(a, b); });
    C sum = 0, weight = 0, dot = 0;
    for (std::int64_t c = t.thread(); c < classes; c += threads) {
      const C v = load(logits[base + c]), target = load(dense[base + c]);
      sum += exp(v - top);
      weight += target;
      if (target != C(0)) dot += target * (v - top);
    }
    const auto add = [](C a, C b) { return a + b; };
    sum = combine_block<threads, 1>(t, sum, add);
    weight = combine_block<threads, 2>(t, weight, add);
    dot = combine_block<threads, 3>(t, dot, add);
    if (t.thread() == 0) losses[row] = static_cast<C>(scale) * (weight * log(sum) - dot);
    for (std::int64_t c = t.thread(); c < classes; c += threads)
      dlogits[base + c] = store<T>(static_cast<C>(scale) * (exp(load(logits[base + c]) - top) / sum * weight - load(dense[base + c])));
  }
};

// parts[i] = −w[label] · logp[label] and weights[i] = w[label] of label i; 0 where it is ignored, NaN where it is no class.
template <class T>
struct LikelihoodBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* logp;       // null: only the weights
  const void* labels;
  const T* class_weights;  // may be null
  Compute<T>*parts, *weights;
  std::int64_t count, classes, places, ignored;  // labels [count / places, places]
  bool wide, ignores;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    for (std::int64_t i = t.block() * threads + t.thread(); i < count; i += t.blocks() * threads) {
      const std::int64_t label = read_label(labels, wide, i);
      const bool skipped = ignores && label == ignored, outside = !skipped && (label < 0 || label >= classes);
      const C weight = skipped ? C(0) : outside ? C(NAN) : class_weights ? load(class_weights[label]) : C(1);
      weights[i] = weight;
      if (logp)
        parts[i] =
            skipped || outside || weight == C(0) ? weight : -weight * load(logp[(i / places * classes + label) * places + i % places]);
    }
  }
};

// y[i] = a[i] / b[0], or a[i] where b is null.
template <class T>
struct QuotientBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const Compute<T>*a, *b;
  T* y;
  std::int64_t count;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < count; i += t.blocks() * threads) y[i] = store<T>(b ? a[i] / b[0] : a[i]);
  }
};

// dlogp[n, c, place] = c is the label ? −dy · w / total : 0.
template <class T>
struct LikelihoodBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  const void* labels;
  const Compute<T>*weights, *total;  // total null: 1
  T* dlogp;
  std::int64_t elements, classes, places;
  bool wide, each;  // each: dy has an element for every label

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t place = i % places, c = i / places % classes, at = i / places / classes * places + place;
      const C weight = weights[at];
      C gradient = 0;
      if (read_label(labels, wide, at) == c && weight != C(0) && weight == weight)
        gradient = -load(dy[each ? at : 0]) * weight / (total ? total[0] : C(1));
      dlogp[i] = store<T>(gradient);
    }
  }
};

// correct[r] = 1 where row r's label has its largest score: none before it is as large, none behind it larger, and none is NaN.
template <class T>
struct CorrectBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  const T* scores;  // of 16 bytes' alignment
  const void* labels;
  float* correct;
  std::int64_t classes;
  bool wide;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const std::int64_t row = t.block(), base = row * classes, label = read_label(labels, wide, row);
    const bool outside = label < 0 || label >= classes;
    const C score = outside ? C(0) : load(scores[base + label]);
    float beaten = outside ? 1.0F : 0.0F;
    for_row<threads, T>(t.thread(), base, classes, [&]<int width>(std::int64_t c, Width<width>) {
      const Pack<T, width> pack = read_pack<width>(scores, (base + c) / width);
      for (int i = 0; i < width; ++i) {
        const C v = load(pack.v[i]);
        if (!(c + i < label ? v < score : v <= score)) beaten = 1.0F;
      }
    });
    beaten = combine_block<threads, 0>(t, beaten, [](float a, float b) { return larger(a, b); });
    if (t.thread() == 0) correct[row] = 1.0F - beaten;
  }
};

// The place of a row's largest score, the first of equals.
template <class T>
TANDEM_DEVICE std::int64_t place_of_largest(const T* row, std::int64_t length) {
  std::int64_t place = 0;
  for (std::int64_t c = 1; c < length; ++c)
    if (load(row[c]) > load(row[place])) place = c;
  return place;
}

// The same for dense labels, whose largest number is the class.
template <class T>
struct DenseCorrectBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T *scores, *dense;
  float* correct;
  std::int64_t rows, classes;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t r = t.block() * threads + t.thread(); r < rows; r += t.blocks() * threads)
      correct[r] = place_of_largest(scores + r * classes, classes) == place_of_largest(dense + r * classes, classes) ? 1.0F : 0.0F;
  }
};

}  // namespace tandem::cuda
