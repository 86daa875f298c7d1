// Samples as a model takes them: layouts, normalisation, augmentation, labels, and the loader that brings them.
#include "trainer/feed/feed.h"

#include <cmath>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "data/stream.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/feed/loader.h"

namespace tandem {
namespace {

// Pixel (n, c, y, x) of the images made here holds 100 n + 10 (3 y + x) + c.
std::uint8_t pixel(int n, int c, int y, int x) {
  return static_cast<std::uint8_t>(100 * n + 10 * (3 * y + x) + c);
}

MemoryDataset images(Axes axes, int channels) {
  const bool first = axes == Axes::channels_first;
  Tensor t(TensorType{DType::uint8, first ? Shape{2, channels, 2, 3} : Shape{2, 2, 3, channels}});
  auto out = t.write<std::uint8_t>();
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < channels; ++c)
      for (int y = 0; y < 2; ++y)
        for (int x = 0; x < 3; ++x)
          out[static_cast<std::size_t>(first ? ((n * channels + c) * 2 + y) * 3 + x : ((n * 2 + y) * 3 + x) * channels + c)] =
              pixel(n, c, y, x);
  MemoryDataset data("test images");
  data.add({.name = "images", .axes = axes, .pixels = true}, t);
  data.add({.name = "labels", .role = Role::label}, Tensor::of<std::uint8_t>({2}, {1, 0}));
  return data;
}

std::vector<float> fed(const Dataset& data, FeedTarget target, const Preprocess& preprocess = {},
                       std::vector<std::int64_t> samples = {0, 1}, bool augment = false) {
  std::vector<float> out(samples.size() * static_cast<std::size_t>(target.sample.shape.elements()));
  Feed feed(data, {std::move(target)}, preprocess, 1);
  std::byte* to = reinterpret_cast<std::byte*>(out.data());
  feed.fill(samples, 0, augment, {&to, 1});
  return out;
}

struct LayoutRow {
  const char* name;
  Axes from;
  int channels;
  Shape wanted;
  enum { first, last, flat } to;
};
void PrintTo(const LayoutRow& row, std::ostream* out) {
  *out << row.name;
}

class Layouts : public testing::TestWithParam<LayoutRow> {};
TEST_P(Layouts, MoveEveryPixelToItsPlace) {
  const LayoutRow& row = GetParam();
  const MemoryDataset data = images(row.from, row.channels);
  const std::vector<float> out = fed(data, {.name = "x", .sample = {DType::float32, row.wanted}});
  const int channels = row.channels;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < channels; ++c)
      for (int y = 0; y < 2; ++y)
        for (int x = 0; x < 3; ++x) {
          const int at = row.to == LayoutRow::last ? ((n * 2 + y) * 3 + x) * channels + c : ((n * channels + c) * 2 + y) * 3 + x;
          EXPECT_FLOAT_EQ(out[static_cast<std::size_t>(at)] * 255, pixel(n, c, y, x));
        }
}
INSTANTIATE_TEST_SUITE_P(Rows, Layouts,
                         testing::Values(LayoutRow{"NCHW to NCHW", Axes::channels_first, 4, {4, 2, 3}, LayoutRow::first},
                                         LayoutRow{"NCHW to NHWC", Axes::channels_first, 4, {2, 3, 4}, LayoutRow::last},
                                         LayoutRow{"NHWC to NCHW", Axes::channels_last, 4, {4, 2, 3}, LayoutRow::first},
                                         LayoutRow{"NHWC to NHWC", Axes::channels_last, 4, {2, 3, 4}, LayoutRow::last},
                                         LayoutRow{"grey to NCHW", Axes::channels_first, 1, {1, 2, 3}, LayoutRow::first},
                                         LayoutRow{"grey to NHWC", Axes::channels_first, 1, {2, 3, 1}, LayoutRow::last},
                                         LayoutRow{"grey to rows", Axes::channels_first, 1, {2, 3}, LayoutRow::first},
                                         LayoutRow{"grey to flat", Axes::channels_first, 1, {6}, LayoutRow::flat}));

TEST(Feed, NormalisesEachChannel) {
  const MemoryDataset data = images(Axes::channels_first, 2);
  Preprocess p;
  parse_normalize(p, "0.5,0.25,2,4");
  const std::vector<float> out = fed(data, {.name = "x", .sample = {DType::float32, {2, 2, 3}}}, p);
  EXPECT_NEAR(out[1], (10 / 255.0 - 0.5) / 2, 1e-6);
  EXPECT_NEAR(out[6 + 5], (51 / 255.0 - 0.25) / 4, 1e-6);
  expect_error(ExitCode::usage, "3 means for 'images'", [&] {
    Preprocess wrong;
    parse_normalize(wrong, "1,2,3,1,2,3");
    fed(data, {.name = "x", .sample = {DType::float32, {2, 2, 3}}}, wrong);
  });
}

TEST(Feed, BytesStayBytesForAModelThatTakesThem) {
  const MemoryDataset data = images(Axes::channels_first, 1);
  std::vector<std::uint8_t> out(6);
  std::byte* to = reinterpret_cast<std::byte*>(out.data());
  Feed feed(data, {{.name = "x", .sample = {DType::uint8, {6}}}}, {}, 1);
  const std::int64_t sample = 1;
  feed.fill({&sample, 1}, 0, false, {&to, 1});
  EXPECT_EQ(out[4], pixel(1, 0, 1, 1));
}

// What lies outside the integers would become any of them, and halves would be lost without a word.
TEST(Feed, IntegersAreNotMadeOfFloats) {
  MemoryDataset data("test numbers");
  data.add({.name = "x"}, Tensor::of<double>({1, 2}, {0.5, 3e103}));
  expect_error(ExitCode::data, "'x' is float64[2] per sample, the model's input 'x' takes int64, which are integers: store them as int64",
               [&] { Feed(data, {{"x", {DType::int64, {2}}}}, {}, 1); });
}

TEST(Feed, AugmentationMovesAndMirrorsButKeepsPixels) {
  const MemoryDataset data = images(Axes::channels_first, 1);
  Preprocess p;
  parse_augment(p, "crop=1,flip");
  std::vector<std::int64_t> samples(64, 0);
  Feed feed(data, {{.name = "x", .sample = {DType::float32, {1, 2, 3}}}}, p, 1);
  std::set<std::vector<float>> seen;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    std::vector<float> out(6);
    std::byte* to = reinterpret_cast<std::byte*>(out.data());
    const std::int64_t sample = 0;
    feed.fill({&sample, 1}, epoch, true, {&to, 1});
    seen.insert(out);
    std::vector<float> again(6);
    to = reinterpret_cast<std::byte*>(again.data());
    feed.fill({&sample, 1}, epoch, true, {&to, 1});
    EXPECT_EQ(out, again);
  }
  // 3 x 3 places, each mirrored or not; the images have no two pixels alike, so all differ.
  EXPECT_EQ(seen.size(), 18u);
  EXPECT_EQ(fed(data, {.name = "x", .sample = {DType::float32, {1, 2, 3}}}, p, {0}, false),
            fed(data, {.name = "x", .sample = {DType::float32, {1, 2, 3}}}, {}, {0}));
}

TEST(Feed, LabelsBecomeIndicesOrOneHot) {
  const MemoryDataset data = images(Axes::channels_first, 1);
  std::vector<std::int64_t> indices(2);
  std::vector<float> dense(6);
  std::byte* to[] = {reinterpret_cast<std::byte*>(indices.data()), reinterpret_cast<std::byte*>(dense.data())};
  Feed sparse_feed(data, {{.name = "labels", .sample = {DType::int64, {}}, .label = true, .indices = {.count = 3}}}, {}, 1);
  Feed dense_feed(data, {{.name = "labels", .sample = {DType::float32, {3}}, .label = true}}, {}, 1);
  const std::int64_t samples[] = {0, 1};
  sparse_feed.fill(samples, 0, false, {&to[0], 1});
  dense_feed.fill(samples, 0, false, {&to[1], 1});
  EXPECT_EQ(indices, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(dense, (std::vector<float>{0, 1, 0, 1, 0, 0}));
}

// Sample 1 of 3 has what cannot be; it is named with its value before anything is trained.
struct ValueRow {
  const char* name;
  Tensor values;
  FeedTarget target;
  const char* loss;
  const char* message;  // empty: they can be
};
void PrintTo(const ValueRow& row, std::ostream* out) { *out << row.name; }

const FeedTarget floats{.name = "x", .sample = {DType::float32, {2}}};
FeedTarget labels_of(TensorType sample, std::int64_t classes = 0) {
  return {.name = "labels", .sample = std::move(sample), .label = true, .indices = {.count = classes}};
}
Tensor with(double value, DType dtype = DType::float64) { return Tensor::of<double>({3, 2}, {0, 1, 0, value, 1, 0}).cast(dtype); }

class Values : public testing::TestWithParam<ValueRow> {};
TEST_P(Values, AreCheckedByWhoTakesThem) {
  const ValueRow& row = GetParam();
  MemoryDataset data("data");
  data.add({.name = row.target.label ? "y" : "x", .role = row.target.label ? Role::label : Role::input}, row.values);
  const auto check = [&] { Feed(data, {row.target}, {}, 1).check_values(row.loss); };
  if (*row.message)
    expect_error(ExitCode::data, row.message, check);
  else
    EXPECT_NO_THROW(check());
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Values,
    testing::Values(ValueRow{"nan", with(std::nan("")), floats, "mse", "data: sample 1 has nan in 'x', the model's input 'x' takes float32: finite numbers"},
                    ValueRow{"infinity_in_float32", with(INFINITY, DType::float32), floats, "mse", "sample 1 has inf in 'x'"},
                    ValueRow{"beyond_float32", with(1e300), floats, "mse", "sample 1 has 1e+300 in 'x'"},
                    ValueRow{"large", with(-3e38), floats, "mse", ""},
                    ValueRow{"any_double", with(1e300), {.name = "x", .sample = {DType::float64, {2}}}, "mse", ""},
                    ValueRow{"a_fraction", with(0.5), {.name = "x", .sample = {DType::int32, {2}}}, "mse", "'x' is float64[2] per sample, the model's input 'x' takes int32, which are integers"},
                    ValueRow{"beyond_int32", with(1e10, DType::int64), {.name = "x", .sample = {DType::int32, {2}}}, "mse", "sample 1 has 1e+10 in 'x'"},
                    ValueRow{"a_regression_target", with(1e300), labels_of({DType::float32, {2}}), "mse", "sample 1 has 1e+300 in 'y', the loss takes float32"},
                    ValueRow{"bce_above", with(1.5), labels_of({DType::float32, {2}}), "binary-cross-entropy", "sample 1 has 1.5 in 'y', the loss takes float32: finite numbers from 0 to 1"},
                    ValueRow{"bce_below", with(-1, DType::int64), labels_of({DType::float32, {2}}, 2), "binary-cross-entropy", "sample 1 has -1 in 'y'"},
                    ValueRow{"bce_soft", with(0.5), labels_of({DType::float32, {2}}, 2), "binary-cross-entropy", ""},
                    ValueRow{"soft_classes", with(0.25), labels_of({DType::float32, {2}}, 2), "softmax-cross-entropy", ""},
                    ValueRow{"a_negative_probability", with(-0.25), labels_of({DType::float32, {2}}, 2), "softmax-cross-entropy", "sample 1 has -0.25 in 'y'"},
                    ValueRow{"classes_as_floats", with(7), {.name = "x", .sample = {DType::float32, {2}}, .indices = {.count = 3}}, "output", "sample 1 has 7 in 'x', the model's input 'x' takes one of 3 (0 to 2)"}),
    [](const auto& info) { return info.param.name; });

struct MismatchRow {
  const char* name;
  FeedTarget target;
  const char* message;
};
void PrintTo(const MismatchRow& row, std::ostream* out) {
  *out << row.name;
}

class Mismatch : public testing::TestWithParam<MismatchRow> {};
TEST_P(Mismatch, NamesBothShapes) {
  const MemoryDataset data = images(Axes::channels_first, 1);
  expect_error(ExitCode::data, GetParam().message, [&] { Feed(data, {GetParam().target}, {}, 1).check_values("mse"); });
}
INSTANTIATE_TEST_SUITE_P(Rows, Mismatch,
                         testing::Values(MismatchRow{"size",
                                                     {.name = "x", .sample = {DType::float32, {3, 32, 32}}},
                                                     "samples of 'images' are uint8[1,2,3], the model's input 'x' takes float32[3,32,32]"},
                                         MismatchRow{"transposed",
                                                     {.name = "x", .sample = {DType::float32, {3, 2}}},
                                                     "uint8[1,2,3], the model's input 'x' takes float32[3,2]"},
                                         MismatchRow{"label shape",
                                                     {.name = "labels", .sample = {DType::int64, {2, 2}}, .label = true, .indices = {.count = 3}},
                                                     "samples of 'labels' are uint8[]"},
                                         MismatchRow{"label too large",
                                                     {.name = "labels", .sample = {DType::int64, {}}, .label = true, .indices = {.count = 1}},
                                                     "test images: sample 0 has label 1, the model's output has 1 classes (0 to 0)"}));

TEST(Feed, AModelWithMoreInputsThanTheDataIsToldSo) {
  MemoryDataset data("two columns");
  data.add({.name = "b"}, Tensor::of<float>({1}, {1}));
  data.add({.name = "a"}, Tensor::of<float>({1}, {2}));
  const TensorType scalar{DType::float32, {}};
  std::vector<float> a(1), b(1);
  std::byte* to[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data())};
  const std::int64_t sample = 0;
  Feed by_name(data, {{.name = "a", .sample = scalar}, {.name = "b", .sample = scalar}}, {}, 1);
  by_name.fill({&sample, 1}, 0, false, to);
  EXPECT_EQ(a[0], 2);
  EXPECT_EQ(b[0], 1);
  expect_error(ExitCode::data, "has nothing for the model's input 'c' float32[]; it has 'b' float32[], 'a' float32[]", [&] {
    Feed(data, {{.name = "a", .sample = scalar}, {.name = "b", .sample = scalar}, {.name = "c", .sample = scalar}}, {}, 1);
  });
}

MemoryDataset numbers(std::int64_t n) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  MemoryDataset data("numbers");
  data.add({.name = "x"}, Tensor::of<std::int64_t>({n}, values));
  return data;
}

TEST(Loader, BringsEveryBatchInOrder) {
  const MemoryDataset data = numbers(10);
  Feed feed(data, {{.name = "x", .sample = {DType::int64, {}}}}, {}, 1);
  const BatchOrder order{.samples = 10, .batch = 4, .shuffle = true, .seed = 5};
  // from the second batch of the second epoch, to the third epoch's end
  Loader loader(feed, {.order = order, .epoch = 1, .batch = 1, .epochs = 3});
  std::vector<std::int64_t> got, wanted = order.epoch(1);
  wanted.erase(wanted.begin(), wanted.begin() + 4);
  const std::vector<std::int64_t> third = order.epoch(2);
  wanted.insert(wanted.end(), third.begin(), third.end());
  std::vector<std::int64_t> sizes;
  while (const LoadedBatch* batch = loader.next()) {
    sizes.push_back(batch->size);
    const auto* x = reinterpret_cast<const std::int64_t*>(batch->inputs[0]);
    got.insert(got.end(), x, x + batch->size);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 2, 4, 4, 2}));
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, ShowsTheNextBatchBeforeItIsTaken) {
  const MemoryDataset data = numbers(12);
  Feed feed(data, {{.name = "x", .sample = {DType::int64, {}}}}, {}, 1);
  Loader loader(feed, {.order = {.samples = 12, .batch = 2}});
  const auto values = [](const LoadedBatch* batch) {
    const auto* x = reinterpret_cast<const std::int64_t*>(batch->inputs[0]);
    return std::vector<std::int64_t>(x, x + batch->size);
  };
  for (std::int64_t first = 0; first < 12; first += 2) {
    const LoadedBatch* const shown = loader.peek();
    const std::vector<std::int64_t> there = shown ? values(shown) : std::vector<std::int64_t>();
    const LoadedBatch* const taken = loader.next();
    EXPECT_EQ(values(taken), (std::vector<std::int64_t>{first, first + 1}));
    while (first < 10 && !loader.peek()) std::this_thread::yield();  // the next one comes beside it
    EXPECT_EQ(values(taken), (std::vector<std::int64_t>{first, first + 1})) << "the held one stays";
    if (!shown) continue;
    EXPECT_EQ(shown, taken);
    EXPECT_EQ(there, values(taken));
  }
  EXPECT_EQ(loader.peek(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, KeepsAsManyBatchesAsAreWanted) {
  const MemoryDataset data = numbers(40);
  Feed feed(data, {{.name = "x", .sample = {DType::int64, {}}}}, {}, 1);
  for (const std::size_t held : {1U, 2U, 3U}) {
    Loader loader(feed, {.order = {.samples = 40, .batch = 2}, .held = held});
    std::vector<const LoadedBatch*> given;
    for (std::int64_t n = 0; n < 20; ++n) {
      given.push_back(loader.next());
      for (int waits = 0; waits < 20 || (n < 19 && !loader.peek()); ++waits) std::this_thread::yield();  // batches are filled meanwhile
      for (std::int64_t old = std::max<std::int64_t>(0, n + 1 - static_cast<std::int64_t>(held)); old <= n; ++old)
        EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(given[static_cast<std::size_t>(old)]->inputs[0]), 2 * old)
            << "of " << held << " held";
    }
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(Loader, FillsUpTheLastBatchAndCanBeLeftEarly) {
  const MemoryDataset data = numbers(5);
  Feed feed(data, {{.name = "x", .sample = {DType::int64, {}}}}, {}, 1);
  Loader loader(feed, {.order = {.samples = 5, .batch = 3}, .pad = true, .epochs = 0});
  loader.next();
  const LoadedBatch* last = loader.next();
  const auto* x = reinterpret_cast<const std::int64_t*>(last->inputs[0]);
  EXPECT_EQ(last->size, 2);
  EXPECT_EQ((std::vector<std::int64_t>(x, x + 3)), (std::vector<std::int64_t>{3, 4, 3}));
}

// Seven samples are three micro-batches of two, and one of the last sample alone.
TEST(Loader, FillsTheLastMicroBatchWithItsOwnSamples) {
  const MemoryDataset data = numbers(15);
  Feed feed(data, {{.name = "x", .sample = {DType::int64, {}}}}, {}, 1);
  Loader loader(feed, {.order = {.samples = 15, .batch = 8}, .most = 4});
  EXPECT_EQ(loader.next()->size, 8);
  const LoadedBatch* const last = loader.next();
  const auto* const x = reinterpret_cast<const std::int64_t*>(last->inputs[0]);
  EXPECT_EQ(last->size, 7);
  EXPECT_EQ((std::vector<std::int64_t>(x, x + 8)), (std::vector<std::int64_t>{8, 9, 10, 11, 12, 13, 14, 14}));
}

TEST(Loader, BringsSomeRowsOfInputsAndAllLabels) {
  MemoryDataset data("rows");
  data.add({.name = "x"}, Tensor::of<std::int64_t>({4}, {1, 2, 3, 4}));
  data.add({.name = "y", .role = Role::label}, Tensor::of<std::int64_t>({4}, {5, 6, 7, 8}));
  Feed feed(data,
            {{.name = "x", .sample = {DType::int64, {}}},
             {.name = "labels", .sample = {DType::int64, {}}, .label = true, .indices = {.count = 9}}},
            {}, 1);
  Loader loader(feed, {.order = {.samples = 4, .batch = 3}, .rows = [](std::int64_t batch, std::int64_t) {
                         return std::vector{RowRange{batch - 1, 1}};
                       }});
  for (const auto& [x, y] :
       std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{{{0, 0, 3}, {5, 6, 7}}, {{4}, {8}}}) {
    const LoadedBatch* batch = loader.next();
    const auto* got_x = reinterpret_cast<const std::int64_t*>(batch->inputs[0]);
    const auto* got_y = reinterpret_cast<const std::int64_t*>(batch->inputs[1]);
    EXPECT_EQ((std::vector<std::int64_t>(got_x, got_x + batch->size)), x);
    EXPECT_EQ((std::vector<std::int64_t>(got_y, got_y + batch->size)), y);
  }
}

class Failing final : public Dataset {
 public:
  std::string name() const override { return "failing"; }
  std::int64_t size() const override { return 4; }
  std::span<const Field> fields() const override { return {&field_, 1}; }
  void read(std::size_t, std::span<const std::int64_t>, std::byte*) const override { fail(ExitCode::io, "the disk is gone"); }

 private:
  Field field_{.name = "x", .sample = {DType::int64, {}}};
};

TEST(Loader, PassesItsThreadsErrorOn) {
  const Failing data;
  Feed feed(data, {{.name = "x", .sample = {DType::int64, {}}}}, {}, 1);
  Loader loader(feed, {.order = {.samples = 4, .batch = 2}});
  expect_error(ExitCode::io, "the disk is gone", [&] { loader.next(); });
}

TEST(HoldOut, SplitsWithoutOverlap) {
  const MemoryDataset data = numbers(50);
  const auto [kept, held] = hold_out(data, 0.2, 1);
  EXPECT_EQ(kept->size(), 40);
  EXPECT_EQ(held->size(), 10);
  std::set<std::int64_t> seen;
  for (const Dataset* part : {kept.get(), held.get()})
    for (std::int64_t i = 0; i < part->size(); ++i) {
      std::int64_t v = -1;
      part->read(0, {&i, 1}, reinterpret_cast<std::byte*>(&v));
      seen.insert(v);
    }
  EXPECT_EQ(seen.size(), 50u);
  expect_error(ExitCode::usage, "not between 0 and 1", [&] { hold_out(data, 1.5, 1); });
  expect_error(ExitCode::data, "leaves 0 of 50", [&] { hold_out(data, 0.001, 1); });
}

}  // namespace
}  // namespace tandem
