// How fast image files become batches: input_pipeline [images] [seconds] [FOLDER]. Makes 500 x 375 JPEGs in a temporary folder (two
// classes), or takes a folder of classes, then measures, on this machine, JPEG decoding alone, and the loader by numbers of threads:
// decoded, resized and cropped to 224 x 224, normalized; as in training (random boxes, mirrored) and as in evaluation.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>

#include "base/file.h"
#include "data/image.h"
#include "data/stream.h"
#include "trainer/feed/loader.h"

namespace {

using namespace tandem;
using Clock = std::chrono::steady_clock;

constexpr int width = 500, height = 375, side = 224, batch = 32, quality = 90;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Waves of three colours and some noise: about as many bytes as photographs take.
std::vector<unsigned char> picture(int number) {
  Random random(7, static_cast<std::uint64_t>(number));
  double length[3];
  for (double& l : length) l = random.uniform(5, 40);
  std::vector<unsigned char> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        pixels.push_back(static_cast<unsigned char>(128 + 60 * std::sin(x / length[c]) * std::cos(y / length[(c + 1) % 3]) +
                                                    14 * random.uniform(-1, 1)));
  return pixels;
}

void write_jpeg(const std::string& path, std::vector<unsigned char> pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) fail(ExitCode::io, path, ": cannot be written");
  jpeg_stdio_dest(&info, file);
  info.image_width = width;
  info.image_height = height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + static_cast<std::size_t>(info.next_scanline) * width * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::fclose(file);
}

double decoded_a_second(const Dataset& data, double seconds) {
  Image image;
  std::vector<std::byte> file;
  std::int64_t images = 0;
  const auto start = Clock::now();
  for (; seconds_since(start) < seconds; ++images) {
    data.encoded(0, images % data.size(), file);
    decode_image(file, {}, "an image", image);
  }
  return static_cast<double>(images) / seconds_since(start);
}

double loaded_a_second(const Dataset& data, std::int64_t workers, const char* augment, double seconds) {
  Preprocess p;
  parse_normalize(p, "imagenet");
  parse_augment(p, augment);
  Feed feed(data, {{.name = "x", .sample = {DType::float32, {3, side, side}}}}, p, 1);
  Loader loader(feed,
                {.order = {.samples = data.size(), .batch = batch, .shuffle = true}, .augment = true, .epochs = 0, .workers = workers});
  for (std::int64_t i = 0; i < workers + 2; ++i) loader.next();  // those that were made ahead
  std::int64_t images = 0;
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) images += loader.next()->size;
  return static_cast<double>(images) / seconds_since(start);
}

void measure(const std::string& folder, double seconds) {
  const auto data = open_data("images:" + folder).train;
  fmt::print("decoded, one thread: {:.0f} images/s\n", decoded_a_second(*data, seconds));
  for (const char* augment : {"", "crop,flip"})
    for (const std::int64_t workers : {1, 2, 4})
      fmt::print("{}, {} worker{}: {:.0f} images/s\n", *augment ? "training (crop,flip)" : "evaluation", workers, workers == 1 ? "" : "s",
                 loaded_a_second(*data, workers, augment, seconds));
}

int run(int images, double seconds) {
  std::string name = (std::filesystem::temp_directory_path() / "tandem_images_XXXXXX").string();
  if (!mkdtemp(name.data())) fail(ExitCode::io, name, ": cannot be made");
  struct Remove {
    std::string& folder;
    ~Remove() { std::filesystem::remove_all(folder); }
  } const remove{name};
  std::uintmax_t bytes = 0;
  for (int i = 0; i < images; ++i) {
    const std::string folder = concat(name, i % 2 == 0 ? "/a" : "/b"), path = concat(folder, '/', i, ".jpg");
    std::filesystem::create_directories(folder);
    write_jpeg(path, picture(i));
    bytes += std::filesystem::file_size(path);
  }
  fmt::print("{} JPEGs of {}x{}, {:.0f} KB each\n", images, width, height, static_cast<double>(bytes) / images / 1000);
  measure(name, seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 3) return measure(argv[3], std::atof(argv[2])), 0;
    return run(argc > 1 ? std::atoi(argv[1]) : 200, argc > 2 ? std::atof(argv[2]) : 3);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
