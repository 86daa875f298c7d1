// Folders of images as a data set, and image files on their way to a model.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>

#include <sys/stat.h>

#include "kernels/cpu/backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/feed/feed.h"
#include "trainer/feed/loader.h"
#include "trainer/feed/preprocess.h"
#include "trainer/model.h"

namespace tandem {
namespace {

// A PPM of one red, with a gradient along x in blue and along y, `step` a row, in green.
std::string picture(int height, int width, int red, int green, int step = 0) {
  std::string file = concat("P6 ", width, ' ', height, " 255\n");
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      file += {static_cast<char>(red), static_cast<char>(green + step * y), static_cast<char>(x * 255 / width)};
  return file;
}

void write(const TemporaryFolder& folder, const std::string& path, const std::string& file) {
  std::filesystem::create_directories((folder / path).parent_path());
  folder.write(path, file);
}

// Of a and b, six and four images of different sizes.
void make_classes(const TemporaryFolder& folder, const std::string& below = "") {
  for (int i = 0; i < 6; ++i) write(folder, concat(below, "a/", i, ".ppm"), picture(8 + i, 20 - i, 10 * i, 100, 3));
  for (int i = 0; i < 4; ++i) write(folder, concat(below, "b/deep/", i, ".PPM"), picture(30, 9 + i, 255, 10 * i));
  write(folder, below + "a/notes.txt", "no image");
}

const FeedTarget target{.name = "x", .sample = {DType::float32, {3, 8, 8}}};
const FeedTarget labels{.name = "labels", .sample = {DType::int64, {}}, .label = true, .indices = {.count = 2}};

TEST(ImageFolder, HasAClassAFolder) {
  const TemporaryFolder folder;
  make_classes(folder);
  const Splits splits = open_data("images:" + folder.text());
  ASSERT_TRUE(splits.train && !splits.validation && !splits.test);
  EXPECT_EQ(splits.train->size(), 10);
  EXPECT_EQ(class_names(*splits.train), (std::vector<std::string>{"a", "b"}));
  std::vector<std::int64_t> all{0, 5, 6, 9}, got(4);
  splits.train->read(1, all, reinterpret_cast<std::byte*>(got.data()));
  EXPECT_EQ(got, (std::vector<std::int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(splits.train->describe(6), (folder / "b/deep/0.PPM").string());
}

TEST(ImageFolder, HasPartsWhereItsFoldersAreCalledSo) {
  const TemporaryFolder folder;
  make_classes(folder, "train/");
  write(folder, "val/b/1.ppm", picture(8, 8, 1, 1));
  const Splits splits = open_data("images:" + folder.text());
  ASSERT_TRUE(splits.train && splits.validation && !splits.test);
  std::int64_t label = 0;
  const std::int64_t first = 0;
  splits.validation->read(1, {&first, 1}, reinterpret_cast<std::byte*>(&label));
  EXPECT_EQ(label, 1);  // as the training part counts
  write(folder, "val/c/1.ppm", picture(8, 8, 1, 1));
  expect_error(ExitCode::data, "a class that 2 others are not: a, b", [&] { open_data("images:" + folder.text()); });
}

TEST(ImageFolder, CountsClassesAsTheModelDoes) {
  const TemporaryFolder folder;
  make_classes(folder);
  const Splits splits = open_data("images:" + folder.text(), {.class_names = {"b", "x", "a"}, .training = false});
  std::vector<std::int64_t> all{0, 9}, got(2);
  splits.train->read(1, all, reinterpret_cast<std::byte*>(got.data()));
  EXPECT_EQ(got, (std::vector<std::int64_t>{2, 0}));
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  expect_error(ExitCode::usage, "images:DIR", [] { open_data("images:"); });
  expect_error(ExitCode::io, "no such folder", [] { open_data("images:/nowhere"); });
  expect_error(ExitCode::data, "no images in it", [&] { open_data("images:" + folder.text()); });
  make_classes(folder);
  std::filesystem::create_directory(folder / "none");
  const Splits splits = open_data("images:" + folder.text());
  ASSERT_EQ(splits.train->notes().size(), 1u);
  EXPECT_NE(splits.train->notes()[0].find("no images of the class none"), std::string::npos);
}

TEST(ImageFolder, FollowsLinksOnceAndSaysWhatIsNoPart) {
  const TemporaryFolder folder;
  make_classes(folder, "train/");
  std::filesystem::create_directory_symlink("..", folder / "train/a/up");
  std::filesystem::create_symlink("self.ppm", folder / "train/a/self.ppm");
  std::filesystem::create_directory(folder / "extra");
  std::filesystem::create_directory_symlink(folder / "extra", folder / "train/a/more");
  std::filesystem::create_directory_symlink("../more", folder / "train/a/more/again");
  write(folder, "extra/1.ppm", picture(8, 8, 1, 1));
  const Splits splits = open_data("images:" + folder.text());
  EXPECT_EQ(splits.train->size(), 6 + 1 + 4);  // not those of b by way of a/up
  ASSERT_FALSE(splits.train->notes().empty());
  EXPECT_NE(splits.train->notes()[0].find("extra/ is none of its parts"), std::string::npos) << splits.train->notes()[0];
}

// A FIFO without a writer would be waited for, a device read without end.
TEST(ImageFolder, LeavesOutAndNamesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  make_classes(folder);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((folder / "a/fifo.ppm").c_str(), 0600), 0);
  std::filesystem::create_symlink("../pipe", folder / "a/pipe.ppm");
  std::filesystem::create_symlink("/dev/zero", folder / "a/zero.ppm");
  std::filesystem::create_symlink("self.ppm", folder / "b/self.ppm");
  std::filesystem::create_symlink("none", folder / "b/none.ppm");
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_symlink("0.ppm", folder / "a/link.ppm");
  const Splits splits = open_data("images:" + folder.text());
  EXPECT_EQ(splits.train->size(), 11);
  ASSERT_EQ(splits.train->notes().size(), 1u);
  for (const char* name : {"a/fifo.ppm", "a/pipe.ppm", "a/zero.ppm", "b/self.ppm", "b/none.ppm", "only regular files are read"})
    EXPECT_NE(splits.train->notes()[0].find(name), std::string::npos) << splits.train->notes()[0];
  // One that came to be a pipe since.
  std::filesystem::remove(folder / "a/0.ppm");
  ASSERT_EQ(::mkfifo((folder / "a/0.ppm").c_str(), 0600), 0);
  std::vector<std::byte> bytes;
  expect_error(ExitCode::data, "expected a regular file", [&] { splits.train->encoded(0, 0, bytes); });
}

std::vector<float> fed(const Dataset& data, const Preprocess& p, std::int64_t sample, bool augment = false, std::int64_t epoch = 0,
                       FeedTarget to_feed = target) {
  Feed feed(data, {to_feed}, p, 1);
  std::vector<float> out(static_cast<std::size_t>(to_feed.sample.shape.elements()));
  std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
  feed.fill({&sample, 1}, epoch, augment, to);
  return out;
}

TEST(ImageFeed, ResizesTheShorterSideAndCropsTheMiddle) {
  const TemporaryFolder folder;
  write(folder, "a/1.ppm", picture(16, 64, 51, 102));
  const auto data = open_data("images:" + folder.text()).train;
  const std::vector<float> x = fed(*data, {}, 0);
  EXPECT_FLOAT_EQ(x[0], 0.2f);   // red, channels first
  EXPECT_FLOAT_EQ(x[64], 0.4f);
  EXPECT_NEAR(x[128], 0.38f, 0.02f);  // blue of the middle's left end: 24 of 64
  const std::vector<float> stretched = fed(*data, {.resizing = {.stretch = true}}, 0);
  EXPECT_NEAR(stretched[128], 0.05f, 0.02f);
  const std::vector<float> twice = fed(*data, {.resizing = {.shorter = 16}}, 0);
  EXPECT_NEAR(twice[128], 0.44f, 0.02f);  // 28 of 64
  const std::vector<float> last =
      fed(*data, {.mean = {0.2, 0.4, 0}, .deviation = {1, 1, 1}}, 0, false, 0, {.name = "x", .sample = {DType::float32, {8, 8, 3}}});
  EXPECT_NEAR(last[0], 0, 1e-6);
  EXPECT_NEAR(last[1], 0, 1e-6);
  EXPECT_GT(last[2], 0.3f);
}

TEST(ImageFeed, AugmentsBySeedEpochAndSample) {
  const TemporaryFolder folder;
  make_classes(folder);
  const auto data = open_data("images:" + folder.text()).train;
  for (const char* recipe : {"crop", "crop=2", "flip", "rotate", "jitter", "erase=1", "randaugment=15", "vflip", "hue=0.5", "trivial",
                             "randaugment=3x9", "imagenet", "cifar", "crop,flip,rotate,jitter,hue,erase,randaugment,trivial,grey"}) {
    SCOPED_TRACE(recipe);
    Preprocess p;
    parse_augment(p, recipe);
    const std::vector<float> plain = fed(*data, p, 2);
    EXPECT_EQ(plain, fed(*data, {}, 2));  // measured as it is
    int differs = 0;
    for (std::int64_t epoch = 0; epoch < 12; ++epoch) {
      const std::vector<float> once = fed(*data, p, 2, true, epoch);
      EXPECT_EQ(once, fed(*data, p, 2, true, epoch));
      differs += once != plain ? 1 : 0;
    }
    EXPECT_GE(differs, 2);
  }
}

// Images that are bytes in memory take the same recipes, however they are laid out.
TEST(ImageFeed, AugmentsBytesInMemory) {
  std::vector<std::uint8_t> pixels(2 * 3 * 2);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  Preprocess p;
  parse_augment(p, "vflip=1");
  for (const Axes axes : {Axes::channels_first, Axes::channels_last}) {
    const bool first = axes == Axes::channels_first;
    MemoryDataset data("images");
    const Shape shape = first ? Shape{1, 3, 2, 2} : Shape{1, 2, 2, 3};
    data.add({.name = "x", .axes = axes, .pixels = true}, Tensor::of(shape, std::span<const std::uint8_t>(pixels)));
    const FeedTarget same{.name = "x", .sample = {DType::uint8, first ? Shape{3, 2, 2} : Shape{2, 2, 3}}};
    Feed feed(data, {same}, p, 1);
    std::vector<std::uint8_t> out(pixels.size());
    std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
    const std::int64_t sample = 0;
    feed.fill({&sample, 1}, 0, true, to);
    EXPECT_EQ(out, first ? (std::vector<std::uint8_t>{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9})
                         : (std::vector<std::uint8_t>{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}));
  }
  MemoryDataset floats("floats");
  floats.add({.name = "x", .axes = Axes::channels_first}, Tensor(TensorType{DType::float32, {1, 3, 8, 8}}));
  expect_error(ExitCode::data, "the augmentation vflip takes images of bytes", [&] { Feed(floats, {target}, p, 1); });
}

TEST(ImageFeed, RefusesWhatCannotBe) {
  const TemporaryFolder folder;
  make_classes(folder);
  const auto data = open_data("images:" + folder.text()).train;
  expect_error(ExitCode::data, "an image takes [channels, height, width]", [&] {
    fed(*data, {}, 0, false, 0, {.name = "x", .sample = {DType::float32, {5}}});
  });
  Preprocess p;
  expect_error(ExitCode::usage, "unknown augmentation 'rotat'", [&] { parse_augment(p, "flip,rotat"); });
  expect_error(ExitCode::usage, "expected 0 to 180", [&] { parse_augment(p, "rotate=200"); });
  expect_error(ExitCode::usage, "expected 1 to 20 times", [&] { parse_augment(p, "randaugment=0x9"); });
  expect_error(ExitCode::usage, "bilinear or bicubic behind the comma", [] { parse_resizing("crop,cubic"); });
  EXPECT_EQ(text_of(parse_resizing("256,bicubic")), "256,bicubic");
  expect_error(ExitCode::usage, "crop, stretch or", [] { parse_resizing("big"); });
  write(folder, "a/7.ppm", "P6 9 9 255\nshort");
  const auto broken = open_data("images:" + folder.text()).train;
  expect_error(ExitCode::data, (folder / "a/7.ppm").string() + ": broken PPM", [&] { fed(*broken, {}, 6); });
}

TEST(ImageFeed, MeasuresMeanAndDeviation) {
  const TemporaryFolder folder;
  for (const int red : {0, 102}) write(folder, concat("a/", red, ".ppm"), picture(8, 8, red, red == 0 ? 51 : 153));
  const auto data = open_data("images:" + folder.text()).train;
  DataRequest request;
  request.inputs.push_back({.name = "x", .sample = target.sample});
  Preprocess p;
  parse_normalize(p, "auto");
  ASSERT_TRUE(p.measure);
  EXPECT_EQ(measure_normalize(p, *data, request), 2);
  EXPECT_FALSE(p.measure);
  ASSERT_EQ(p.mean.size(), 3u);
  EXPECT_NEAR(p.mean[0], 0.2, 1e-6);
  EXPECT_NEAR(p.deviation[0], 0.2, 1e-6);
  EXPECT_NEAR(p.mean[1], 0.4, 1e-6);
  EXPECT_NEAR(p.deviation[1], 0.2, 1e-6);
  parse_normalize(p, "imagenet");
  EXPECT_EQ(p.deviation, (std::vector<double>{0.229, 0.224, 0.225}));
  // One colour everywhere has no deviation to divide by.
  std::filesystem::remove(folder / "a/102.ppm");
  expect_error(ExitCode::data, "is the same everywhere",
               [&] { measure_normalize(p, *open_data("images:" + folder.text()).train, request); });
}

// What images were prepared with is kept in the file that was trained, where evaluate and predict find it.
TEST(ImageModel, KeepsWhatItsDataWasPreparedWith) {
  const TemporaryFolder folder;
  make_classes(folder);
  Model model = Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/lenet.onnx");
  const Backend* const backends[] = {&cpu_backend()};
  model.compile({.plan = {.batch = 5, .devices = parse_devices("cpu")}, .init = "he-normal"}, backends);
  const auto data = open_data("images:" + folder.text(), model.data_request()).train;
  model.fit(*data, {.preprocess = {.mean = {0.5}, .deviation = {0.25}, .resizing = {.shorter = 30}}});
  EXPECT_EQ(model.data_request().class_names, (std::vector<std::string>{"a", "b"}));
  model.save(folder / "trained.onnx");
  const Model saved = Model::load(folder / "trained.onnx");
  const auto& kept = saved.file().metadata();
  EXPECT_EQ(kept.at("tandem.normalize"), "0.5,0.25");
  EXPECT_EQ(kept.at("tandem.resize"), "30");
  EXPECT_EQ(kept.at("tandem.classes"), R"(["a","b"])");
}

// All batches of two epochs, as one text of bytes.
std::string batches(const Dataset& data, std::int64_t workers, Preprocess p = {}) {
  parse_augment(p, "crop,flip,jitter");
  Feed feed(data, {target, labels}, p, 3);
  Loader loader(
      feed, {.order = {.samples = data.size(), .batch = 3, .shuffle = true, .seed = 3}, .augment = true, .epochs = 2, .workers = workers});
  std::string all;
  while (const LoadedBatch* batch = loader.next()) {
    all += concat(batch->epoch, ':', batch->index, ':', batch->size);
    all.append(reinterpret_cast<const char*>(batch->inputs[0]), static_cast<std::size_t>(batch->size) * 3 * 8 * 8 * sizeof(float));
    all.append(reinterpret_cast<const char*>(batch->inputs[1]), static_cast<std::size_t>(batch->size) * sizeof(std::int64_t));
  }
  return all;
}

TEST(ImageLoader, MakesTheSameBatchesByAnyNumberOfWorkers) {
  const TemporaryFolder folder;
  make_classes(folder);
  const auto data = open_data("images:" + folder.text()).train;
  const std::string one = batches(*data, 1);
  EXPECT_GT(one.size(), 10u * 3 * 8 * 8 * 4 * 2);
  EXPECT_EQ(one, batches(*data, 2));
  EXPECT_EQ(one, batches(*data, 4));
}

TEST(ImageLoader, LeavesBadSamplesOutWhereItMay) {
  const TemporaryFolder folder;
  make_classes(folder);
  write(folder, "a/2.ppm", "P6 broken");
  write(folder, "a/3.ppm", "");
  const auto data = open_data("images:" + folder.text()).train;
  expect_error(ExitCode::data, "a/", [&] { batches(*data, 2); });
  std::vector<std::string> told;
  Preprocess p{.bad_samples = 2, .on_bad_sample = [&](const std::string& why) { told.push_back(why); }};
  const std::string one = batches(*data, 1, p);
  EXPECT_EQ(told.size(), 2u);
  EXPECT_EQ(one, batches(*data, 4, p));
  p.bad_samples = 1;
  expect_error(ExitCode::data, "(and 1 others before, which is all that may be left out)", [&] { batches(*data, 1, p); });
}

// What is told before anything is compiled.
TEST(ImageModel, LooksAtFilesBeforeItIsCompiled) {
  const TemporaryFolder folder;
  make_classes(folder);
  const Model model = Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/lenet.onnx");
  const ModelOptions o{.plan = {.batch = 5, .devices = parse_devices("cpu")}};
  model.source().check_data(*open_data("images:" + folder.text()).train, o, {});
  write(folder, "b/9.ppm", "P6 3 3 255\nshort");
  const auto data = open_data("images:" + folder.text()).train;
  expect_error(ExitCode::data, "b/9.ppm: broken PPM: the file ends too early", [&] { model.source().check_data(*data, o, {}); });
  expect_error(ExitCode::data, "(found before training: all files are looked at; option on_bad_sample leaves such out)",
               [&] { model.source().check_data(*data, o, {}); });
  model.source().check_data(*data, o, {.bad_samples = 1});
}

// A measure counts what there is once; a prediction has a row for each sample.
TEST(ImageModel, MeasuresNothingInPlaceOfABrokenFile) {
  const TemporaryFolder folder;
  make_classes(folder);
  Model model = Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/lenet.onnx");
  const Backend* const backends[] = {&cpu_backend()};
  model.compile({.plan = {.batch = 5, .devices = parse_devices("cpu")}, .init = "he-normal"}, backends);
  const auto whole = open_data("images:" + folder.text()).train;
  const Evaluation without = model.evaluate(Subset(*whole, {0, 1, 3, 4, 5, 6, 7, 8, 9}, "without"));
  write(folder, "a/2.ppm", "P6 broken");
  const auto data = open_data("images:" + folder.text()).train;
  const Preprocess skip{.bad_samples = 1};
  const Evaluation e = model.evaluate(*data, {.preprocess = skip});
  EXPECT_EQ(e.samples, 9);
  EXPECT_EQ(e.loss, without.loss);
  const Tensor rows = model.predict(*data, {.preprocess = skip})[0].tensor,
               good = model.predict(Subset(*data, {0, 1, 3, 4, 5, 6, 7, 8, 9}, "good"))[0].tensor;
  ASSERT_EQ(rows.shape(), (Shape{10, 10}));
  for (std::size_t i = 0; i < 10; ++i)
    for (std::size_t c = 0; c < 10; ++c) {
      const float v = rows.values<float>()[10 * i + c];
      if (i == 2) EXPECT_TRUE(std::isnan(v));
      else EXPECT_EQ(v, good.values<float>()[10 * (i < 2 ? i : i - 1) + c]);
    }
}

}  // namespace
}  // namespace tandem
