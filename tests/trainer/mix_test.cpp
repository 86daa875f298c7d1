// Mixed batches: mixup and cutmix, against the formula of torchvision.transforms.v2 written out.
#include "data/mix.h"

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/feed/feed.h"
#include "trainer/model.h"

namespace tandem {
namespace {

constexpr std::int64_t samples = 7, side = 6, classes = 3;

MemoryDataset images(Axes axes = Axes::channels_first) {
  std::vector<float> x(samples * 2 * side * side);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 23) / 4;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < samples; ++i) y.push_back(i % classes);
  MemoryDataset data("images");
  data.add({.name = "x", .axes = axes},
           Tensor::of<float>(axes == Axes::channels_first ? Shape{samples, 2, side, side} : Shape{samples, side, side, 2}, x));
  data.add({.name = "y", .role = Role::label}, Tensor::of<std::int64_t>({samples}, y));
  return data;
}

const FeedTarget target{.name = "x", .sample = {DType::float32, {2, side, side}}};
const FeedTarget shares{.name = "labels", .sample = {DType::float32, {classes}}, .label = true, .loss = "softmax-cross-entropy"};

struct Batch {
  std::vector<float> x, y;
  bool operator==(const Batch&) const = default;
};
Batch fed(const Dataset& data, const std::string& augment, std::vector<std::int64_t> batch, std::int64_t epoch = 0,
          RowRange rows = {0, -1}) {
  Preprocess p;
  if (!augment.empty()) parse_augment(p, augment);
  Feed feed(data, {target, shares}, p, 3);
  feed.check_values("");
  Batch b{std::vector<float>(batch.size() * 2 * side * side), std::vector<float>(batch.size() * classes)};
  std::byte* to[] = {reinterpret_cast<std::byte*>(b.x.data()), reinterpret_cast<std::byte*>(b.y.data())};
  if (rows.count < 0) rows = {0, std::ssize(batch)};
  feed.fill(batch, std::span(&rows, 1), epoch, true, to);
  return b;
}

// torchvision's: batch.roll(1, 0).mul_(1 - lam).add_(batch.mul(lam)), and of a box output[..., y1:y2, x1:x2] = rolled[..., y1:y2, x1:x2].
Batch mixed(const Batch& plain, const Mix& mix) {
  Batch b = plain;
  const std::size_t n = plain.y.size() / classes, each = plain.x.size() / n;
  const double r = 0.5 * std::sqrt(1 - mix.lambda);
  const int cx = static_cast<int>(mix.across * side), cy = static_cast<int>(mix.down * side), half = static_cast<int>(r * side);
  const int x1 = std::max(cx - half, 0), x2 = std::min<int>(cx + half, side), y1 = std::max(cy - half, 0),
            y2 = std::min<int>(cy + half, side);
  const double lambda = mix.cut ? 1.0 - static_cast<double>((x2 - x1) * (y2 - y1)) / (side * side) : mix.lambda;
  const auto blended = [&](float own, float other) { return static_cast<float>(lambda) * own + static_cast<float>(1 - lambda) * other; };
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t before = (i + n - 1) % n;
    for (std::size_t k = 0; k < each; ++k) {
      const auto y = static_cast<int>(k / side % side), x = static_cast<int>(k % side);
      const float own = plain.x[i * each + k], other = plain.x[before * each + k];
      if (!mix.cut) b.x[i * each + k] = blended(own, other);
      else if (y >= y1 && y < y2 && x >= x1 && x < x2) b.x[i * each + k] = other;
    }
    for (std::size_t k = 0; k < classes; ++k) b.y[i * classes + k] = blended(plain.y[i * classes + k], plain.y[before * classes + k]);
  }
  return b;
}

class Mixed : public testing::TestWithParam<const char*> {};
TEST_P(Mixed, IsTorchvisionsFormula) {
  const std::vector<std::int64_t> batch{4, 0, 6, 2, 3};
  const MemoryDataset data = images(), last = images(Axes::channels_last);
  int boxes = 0, kinds[2] = {0, 0};
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    Preprocess p;
    parse_augment(p, GetParam());
    Random random(3, stream_of(concat("mix/", epoch, "/4")));
    const Mix mix = draw_mix(p.mixup, p.cutmix, random);
    ++kinds[mix.cut];
    const Batch plain = fed(data, "", batch), got = fed(data, GetParam(), batch, epoch), want = mixed(plain, mix);
    for (std::size_t i = 0; i < want.x.size(); ++i) ASSERT_NEAR(got.x[i], want.x[i], 1e-6) << epoch << ' ' << i;
    for (std::size_t i = 0; i < want.y.size(); ++i) ASSERT_NEAR(got.y[i], want.y[i], 1e-6) << epoch << ' ' << i;
    boxes += mix.cut && got.x != plain.x;
    EXPECT_EQ(got, fed(data, GetParam(), batch, epoch));
    // Another rank's rows are the same as all rows have them; channels that lie last are mixed alike.
    for (const RowRange rows : {RowRange{0, 2}, RowRange{2, 2}, RowRange{4, 1}, RowRange{3, 0}}) {
      const Batch part = fed(data, GetParam(), batch, epoch, rows);
      const auto begin = static_cast<std::ptrdiff_t>(rows.first * 2 * side * side),
                 end = begin + static_cast<std::ptrdiff_t>(rows.count * 2 * side * side);
      EXPECT_TRUE(std::equal(part.x.begin() + begin, part.x.begin() + end, got.x.begin() + begin));
      EXPECT_EQ(part.y, got.y);
    }
    const Batch of_last = fed(last, GetParam(), batch, epoch), plain_last = fed(last, "", batch);
    EXPECT_EQ(of_last.y, got.y);
    for (std::size_t i = 0; i < want.x.size(); ++i) ASSERT_NEAR(of_last.x[i], mixed(plain_last, mix).x[i], 1e-6);
  }
  const bool cuts = std::string_view(GetParam()).find("cutmix") != std::string_view::npos,
             blends = std::string_view(GetParam()).find("mixup") != std::string_view::npos;
  EXPECT_EQ(boxes > 0, cuts);
  EXPECT_EQ(kinds[1] > 0, cuts);
  EXPECT_EQ(kinds[0] > 0, blends);
  // A batch of one, and what is measured, is as it was.
  EXPECT_EQ(fed(data, GetParam(), {5}).y, fed(data, "", {5}).y);
}
INSTANTIATE_TEST_SUITE_P(Rows, Mixed, testing::Values("mixup", "cutmix", "mixup=0.5,cutmix=1"));

TEST(Beta, HasItsMeanAndVariance) {
  for (const double alpha : {0.05, 0.2, 1.0, 4.0}) {
    Random random(1, 2);
    double sum = 0, squares = 0;
    constexpr int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      const double v = draw_beta(alpha, random);
      ASSERT_TRUE(v >= 0 && v <= 1);
      sum += v;
      squares += v * v;
    }
    const double mean = sum / draws, variance = squares / draws - mean * mean, wanted = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(wanted / draws)) << alpha;
    EXPECT_NEAR(variance, wanted, 0.03 * wanted) << alpha;
  }
}

TEST(Mixing, RefusesWhatHasNoShares) {
  const MemoryDataset data = images();
  Preprocess p;
  parse_augment(p, "cutmix");
  const auto check = [&](std::vector<FeedTarget> targets) { Feed(data, std::move(targets), p, 1).check_values(""); };
  FeedTarget indices{
      .name = "labels", .sample = {DType::int64, {}}, .label = true, .indices = {.count = classes}, .loss = "softmax-cross-entropy"},
      numbers = shares;
  numbers.loss = "mse";
  expect_error(ExitCode::usage, "the model is compiled for int64[]: option dense_labels", [&] { check({target, indices}); });
  expect_error(ExitCode::usage, "which the loss 'mse' does not take", [&] { check({target, numbers}); });
  MemoryDataset numbers_alone("numbers");
  numbers_alone.add({.name = "x"}, Tensor(TensorType{DType::float32, {samples, 5}}));
  numbers_alone.add({.name = "y", .role = Role::label}, Tensor(TensorType{DType::int64, {samples}}));
  expect_error(ExitCode::usage, "cutmix takes images of one size", [&] {
    Feed(numbers_alone, {{.name = "x", .sample = {DType::float32, {5}}}, shares}, p, 1).check_values("");
  });
  expect_error(ExitCode::usage, "expected the alpha of Beta", [&] { parse_augment(p, "mixup=0"); });
}

TEST(Mixing, TrainsTheSameWeightsByAnyNumberOfWorkers) {
  const MemoryDataset data = images();
  const auto trained = [&](std::int64_t workers) {
    test::Model m;
    m.input("x", "N,2,6,6")
        .add(test::filled_tensor("w", {2 * side * side, classes}, 0.01F))
        .add(test::node("Flatten", {"x"}, {"f"}))
        .add(test::node("MatMul", {"f", "w"}, {"y"}))
        .output("y");
    Model model(ModelFile::parse(m.bytes(), {}));
    ModelOptions o;
    o.plan.batch = 4;
    o.plan.devices = parse_devices("cpu");
    o.plan.loss.dense_labels = true;
    o.init = "keep";
    const Backend* const backends[] = {&cpu_backend()};
    model.compile(o, backends);
    FitOptions fit{.epochs = 40, .learning_rate = 0.001};
    parse_augment(fit.preprocess, "mixup,cutmix");
    fit.preprocess.workers = workers;
    const History history = model.fit(data, fit);
    EXPECT_LT(history.epochs.back().loss, history.epochs.front().loss);
    return model.parameters()[0].tensor.to_doubles();
  };
  const std::vector<double> one = trained(1);
  EXPECT_EQ(one, trained(2));
  EXPECT_EQ(one, trained(4));
}

}  // namespace
}  // namespace tandem
