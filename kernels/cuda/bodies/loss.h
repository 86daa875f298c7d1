// Losses and metrics on lines of scores.
#pragma once
#include "kernels/cuda/bodies/softmax.h"

namespace tandem::cuda {

TANDEM_DEVICE std::int64_t read_label(const void* labels, bool wide, std::int64_t i) {
  return wide ? static_cast<const std::int64_t*>(labels)[i] : static_cast<const std::int32_t*>(labels)[i];
}

// Row r of the softmax cross-entropy: losses[r] = scale · Σ t · (log Σ eˣ − x) and dlogits = scale · (softmax(x) · Σ t − t), where
// t is the class's row of the unit matrix or the dense labels' row. dlogits may be the logits' memory.
template <class T>
struct CrossEntropyBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  const T* logits;
  const void* labels;   // classes, or null
  const T* dense;       // or null
  Compute<T>* losses;
  T* dlogits;
  std::int64_t classes;
  std::int64_t ignored;
  bool wide, ignores;
  float scale;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const std::int64_t row = t.block(), base = row * classes;
    const std::int64_t label = labels ? read_label(labels, wide, row) : 0;
    const bool skipped = labels && ignores && label == ignored;
    const bool outside = labels && !skipped && (label < 0 || label >= classes);
    C top = -C(INFINITY);
    for (std::int64_t c = t.thread(); c < classes; c += threads) top = larger(top, load(logits[base + c]));
    top = combine_block<threads, 0>(t, top, [](C a, C b) { return larger(a, b); });
    C sum = 0, weight = 0, dot = 0;
    for (std::int64_t c = t.thread(); c < classes; c += threads) {
      const C v = load(logits[base + c]);
      const C target = dense ? load(dense[base + c]) : C(c == label);
      sum += exp(v - top);
      weight += target;
      if (target != C(0)) dot += target * (v - top);
    }
    const auto add = [](C a, C b) { return a + b; };
    sum = combine_block<threads, 1>(t, sum, add);
    weight = combine_block<threads, 2>(t, weight, add);
    dot = combine_block<threads, 3>(t, dot, add);
    if (t.thread() == 0) losses[row] = skipped ? C(0) : outside ? C(NAN) : static_cast<C>(scale) * (weight * log(sum) - dot);
    for (std::int64_t c = t.thread(); c < classes; c += threads) {
      const C target = dense ? load(dense[base + c]) : C(c == label);
      const C gradient = static_cast<C>(scale) * (exp(load(logits[base + c]) - top) / sum * weight - target);
      dlogits[base + c] = store<T>(skipped ? C(0) : outside ? C(NAN) : gradient);
    }
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
      if (logp) parts[i] = skipped || outside || weight == C(0) ? weight : -weight * load(logp[(i / places * classes + label) * places + i % places]);
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
      if (read_label(labels, wide, at) == c && weight != C(0) && weight == weight) gradient = -load(dy[each ? at : 0]) * weight / (total ? total[0] : C(1));
      dlogp[i] = store<T>(gradient);
    }
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

// correct[r] = 1 where row r's largest score is at its label.
template <class T>
struct CorrectBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* scores;
  const void* labels;  // classes, or null
  const T* dense;      // or null
  float* correct;
  std::int64_t rows, classes;
  bool wide;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t r = t.block() * threads + t.thread(); r < rows; r += t.blocks() * threads) {
      const std::int64_t wanted = labels ? read_label(labels, wide, r) : place_of_largest(dense + r * classes, classes);
      correct[r] = place_of_largest(scores + r * classes, classes) == wanted ? 1.0F : 0.0F;
    }
  }
};

}  // namespace tandem::cuda
