// TfIdfVectorizer of numbers: how often each sequence of a pool stands in a row, its elements next to one another or with as many others
// between any two as max_skip_count allows. As ONNX Runtime has it, weights go by the output's place.
#include <algorithm>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

// The sequences of one length: their first element's place in the pool, and how many sequences stand before them.
struct Grams {
  std::int64_t length, first, count, before;
};

std::vector<Grams> grams_of(const Attributes& a) {
  const Ints& starts = a.ints("ngram_counts");
  const auto size = static_cast<std::int64_t>(a.ints("pool_int64s").size());
  std::vector<Grams> all;
  std::int64_t before = 0;
  for (std::int64_t n = 1; n <= std::ssize(starts); ++n) {
    const std::int64_t first = starts[static_cast<std::size_t>(n - 1)],
                       end = n < std::ssize(starts) ? starts[static_cast<std::size_t>(n)] : size;
    if (first < 0 || end < first || end > size || (end - first) % n != 0)
      fail("TfIdfVectorizer: ngram_counts ", to_string(AttributeValue(starts)), " does not divide a pool of ", size,
           " numbers into sequences of ", n);
    all.push_back({n, first, (end - first) / n, before});
    before += (end - first) / n;
  }
  return all;
}

std::int64_t columns_of(const Attributes& a) {
  const Ints& places = a.ints("ngram_indexes");
  return places.empty() ? 0 : *std::max_element(places.begin(), places.end()) + 1;
}

void infer_tf_idf_vectorizer(InferContext& c) {
  const Attributes& a = c.attributes();
  if (a.has("pool_strings")) c.fail("pool_strings: only numbers are supported");
  for (const char* name : {"ngram_counts", "ngram_indexes", "pool_int64s"})
    if (!a.has(name)) c.fail(name, " is missing");
  const std::string mode = a.text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") c.fail("mode is '", mode, "', expected TF, IDF or TFIDF");
  const std::int64_t shortest = a.integer("min_gram_length", 1), longest = a.integer("max_gram_length", 1);
  if (shortest < 1 || longest < shortest || longest > std::ssize(a.ints("ngram_counts")))
    c.fail("sequences of ", shortest, " to ", longest, " numbers, expected lengths that ngram_counts has");
  constexpr std::int64_t most_skipped = 1024;  // each distance is nodes of its own
  if (const std::int64_t skipped = a.integer("max_skip_count", 0); skipped < 0 || skipped > most_skipped)
    c.fail("max_skip_count is ", skipped, ", expected 0 to ", most_skipped);
  const Ints& places = a.ints("ngram_indexes");
  const std::vector<Grams> grams = grams_of(a);
  if (std::ssize(places) != grams.back().before + grams.back().count)
    c.fail("ngram_indexes has ", places.size(), " entries for ", grams.back().before + grams.back().count, " sequences");
  for (const std::int64_t place : places)
    if (place < 0 || place >= std::int64_t{1} << 24) c.fail("ngram_indexes holds ", place);
  if (a.has("weights") && a.floats("weights").size() != places.size())
    c.fail("weights has ", a.floats("weights").size(), " entries, expected ", places.size());
  const Shape& x = c.shape(0);
  if (x.rank() != 1 && x.rank() != 2) c.fail("input 0 is ", x, ", expected [C] or [N,C]");
  c.set_output(0, DType::float32, x.rank() == 1 ? Shape{columns_of(a)} : Shape{x[0], columns_of(a)});
}

// [N, count] of a row's windows of one length that equal each sequence
ValueId counted(ExpandContext& e, ValueId rows, const Grams& grams) {
  const Shape x = e.shape(rows);
  const DType dtype = e.type(rows).dtype;
  const Ints& pool = e.attributes().ints("pool_int64s");
  ValueId sum;
  const std::int64_t most = grams.length == 1 ? 0 : e.attributes().integer("max_skip_count", 0);
  for (std::int64_t step = 1; step <= most + 1; ++step) {
    const std::int64_t windows = x[1] - step * (grams.length - 1);
    if (windows <= 0) break;
    ValueId equal;
    for (std::int64_t k = 0; k < grams.length; ++k) {
      Ints numbers;
      for (std::int64_t g = 0; g < grams.count; ++g) numbers.push_back(pool[static_cast<std::size_t>(grams.first + g * grams.length + k)]);
      const ValueId wanted =
          e.graph().add_constant(e.node().name + "/pool", Tensor::of<std::int64_t>(Shape{grams.count}, numbers).cast(dtype));
      const ValueId one =
          e.emit("Equal", {e.reshape(slice_axis(e, rows, 1, k * step, k * step + windows), Shape{x[0], windows, 1}), wanted});
      equal = k == 0 ? one : e.emit("And", {equal, one});
    }
    const ValueId found = e.reduce_sum(cast(e, equal, DType::float32), {1}, false);
    sum = sum.present() ? e.add(sum, found) : found;
  }
  return sum.present() ? sum : e.broadcast_to(e.scalar(0, DType::float32), Shape{x[0], grams.count});
}

std::vector<ValueId> expand_tf_idf_vectorizer(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const Shape x = e.shape(e.x()), row = x.rank() == 1 ? Shape{1, x[0]} : x;
  const ValueId rows = e.reshape(e.x(), row);
  const std::int64_t columns = columns_of(a), shortest = a.integer("min_gram_length", 1), longest = a.integer("max_gram_length", 1);
  std::vector<ValueId> counts;
  Ints places;
  for (const Grams& grams : grams_of(a)) {
    if (grams.count == 0 || grams.length < shortest || grams.length > longest) continue;
    counts.push_back(counted(e, rows, grams));
    const auto first = a.ints("ngram_indexes").begin() + grams.before;
    places.insert(places.end(), first, first + grams.count);
  }
  const Shape out = x.rank() == 1 ? Shape{columns} : Shape{x[0], columns};
  if (counts.empty() || columns == 0) return {e.broadcast_to(e.scalar(0, DType::float32), out)};
  // Each count in its column.
  Tensor into = bounded_tensor({DType::float32, Shape{std::ssize(places), columns}});
  const auto ones = into.write<float>();
  std::fill(ones.begin(), ones.end(), 0.0F);
  for (std::size_t i = 0; i < places.size(); ++i) ones[i * static_cast<std::size_t>(columns) + static_cast<std::size_t>(places[i])] = 1;
  const ValueId all = counts.size() == 1 ? counts[0] : e.emit("Concat", counts, {{"axis", std::int64_t{1}}});
  ValueId y = e.emit("MatMul", {all, e.graph().add_constant(e.node().name + "/columns", into)});
  if (a.text("mode") == "IDF") y = cast(e, e.emit("Greater", {y, e.scalar(0, DType::float32)}), DType::float32);
  if (a.text("mode") != "TF" && a.has("weights")) {
    Floats weights(static_cast<std::size_t>(columns), 1.0F);
    std::copy_n(a.floats("weights").begin(), std::min(weights.size(), a.floats("weights").size()), weights.begin());
    y = e.mul(y, e.graph().add_constant(e.node().name + "/weights", Tensor::of<float>(Shape{columns}, weights)));
  }
  return {e.reshape(y, out)};
}

}  // namespace

Operator tf_idf_vectorizer() {
  return {.name = "TfIdfVectorizer",
          .since = {9},
          .types = {{"T", types::indices}},
          .infer = infer_tf_idf_vectorizer,
          .follow =
              [](FollowContext& c) {
                if (c.x().rank() != 2 || c.place().axis != 0)
                  c.fail("the samples lie along axis ", c.place().axis, " of ", c.x(), ", of which sequences are counted");
                c.set(0, c.place());
              },
          .differentiate = zero_gradient,
          .expand = expand_tf_idf_vectorizer,
          .precision = PrecisionRole::parts,
          .operands = {{"X", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
