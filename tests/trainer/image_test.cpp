// Image files decoded, resized and cropped: beside Pillow, and where they are broken.
#include "data/image.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <zlib.h>

#include "base/file.h"
#include "data/operations.h"
#include "data/prepare.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Image decoded(const std::string& file, ImageRequest request = {}) {
  Image image;
  decode_image(bytes_of(file), request, "test.img", image);
  return image;
}

int largest_difference(const Image& a, const Image& b) {
  int most = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) most = std::max(most, std::abs(a.pixels[i] - b.pixels[i]));
  return most;
}

// Whether this build reads a file of this name's ending.
bool reads(const std::string& file) {
  const std::pair<const char*, const char*> formats[] = {{".jpg", "JPEG"}, {".png", "PNG"}, {".webp", "WebP"}};
  for (const auto& [ending, format] : formats)
    if (file.ends_with(ending) && image_formats().find(format) == std::string::npos) return false;
  return true;
}

// Files that Pillow wrote, and what it makes of them.
TEST(Image, IsWhatPillowDecodesAndResizes) {
  const char* python = std::getenv("TANDEM_PYTHON");
  if (!python) GTEST_SKIP() << "TANDEM_PYTHON does not name a Python with Pillow and numpy (./run-tests makes one)";
  const TemporaryFolder folder;
  const auto read = [&](const std::string& name) { return read_file((folder / name).string()); };
  const std::string log = (folder / "log").string();
  const int status =
      std::system(concat(python, ' ', TANDEM_SOURCE_DIR, "/tests/trainer/image_oracle.py ", folder.text(), " >", log, " 2>&1").c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "TANDEM_PYTHON: " << read("log");
  ASSERT_EQ(status, 0) << read("log");
  int checked = 0;
  std::ifstream cases(folder / "cases");
  for (std::string line; std::getline(cases, line); ++checked) {
    std::istringstream words(line);
    std::string name, file, want, filter;
    std::int64_t channels = 0, height = 0, width = 0;
    words >> name >> file >> want >> channels >> height >> width >> filter;
    SCOPED_TRACE(name);
    if (!reads(file)) continue;
    if (filter == "bicubic" && name.starts_with("resize_100x3")) continue;  // where its overshoots are cut between the two
    Image image = decoded(read(file), {.channels = channels});
    if (height > 0) {
      Image resized;
      resize_image(image, {0, 0, image.height, image.width}, height, width, resized,
                   filter == "bicubic" ? Filter::bicubic : Filter::bilinear);
      image = resized;
    }
    const Image wanted = decoded(read(want), {.channels = channels});
    ASSERT_EQ(image.height, wanted.height);
    ASSERT_EQ(image.width, wanted.width);
    // Pillow brings a libjpeg and a libwebp of its own, which may round otherwise, and since 13 takes the height first of
    // images that are to be wider and lower.
    const bool rounds = file.ends_with(".jpg") || file.ends_with(".webp") || name.starts_with("resize_100x3");
    EXPECT_LE(largest_difference(image, wanted), rounds ? 1 : 0);
  }
  EXPECT_GT(checked, 40);
  int operations = 0;
  std::ifstream rows(folder / "operations");
  double amount = 0;
  for (std::string name, file, want; rows >> name >> amount >> file >> want;) {
    SCOPED_TRACE(want);
    Image image = decoded(read(file));
    name == "hue" ? hue(image, amount) : apply_operation(image, name, amount);
    EXPECT_LE(largest_difference(image, decoded(read(want))), 1);
    ++operations;
  }
  EXPECT_EQ(operations, 32);
  std::ifstream cut(folder / "cut");
  for (std::string name; std::getline(cut, name);)
    if (reads(name)) expect_error(ExitCode::data, "test.img: broken ", [&] { decoded(read(name + ".cut")); });
  if (!reads(".jpg")) return;
  // A quarter of 900 x 1300 is still twice the target's 112 x 112; an eighth is not.
  const Image quarter = decoded(read("large.jpg"), {.height = 112, .width = 112}), wanted = decoded(read("large.want"));
  ASSERT_EQ(quarter.height, 225);
  ASSERT_EQ(quarter.width, 325);
  EXPECT_LE(largest_difference(quarter, wanted), 1);
  EXPECT_EQ(decoded(read("large.jpg"), {.height = 500, .width = 500}).height, 900);
}

TEST(Image, PortablePixmapsOfManyKinds) {
  const Image two = decoded("P6 # a comment\n2 1\n255\nabcdef");
  EXPECT_EQ(two.width, 2);
  EXPECT_EQ(std::string(two.pixels.begin(), two.pixels.end()), "abcdef");
  EXPECT_EQ(decoded(std::string("P5 1 1 65535\n\x80\0", 15), {.channels = 1}).pixels[0], 128);
  EXPECT_EQ(decoded("P5 1 1 7\n\x07", {.channels = 1}).pixels[0], 255);
  EXPECT_EQ(decoded("P5 1 1 255\nz").pixels, (std::vector<std::uint8_t>{'z', 'z', 'z'}));
}

struct Broken {
  const char* name;
  std::string file;
  const char* says;
};
void PrintTo(const Broken& b, std::ostream* out) {
  *out << b.name;
}
class BrokenImage : public testing::TestWithParam<Broken> {};
TEST_P(BrokenImage, IsRefused) {
  expect_error(ExitCode::data, GetParam().says, [&] { decoded(GetParam().file); });
  expect_error(ExitCode::data, "test.img: ", [&] { decoded(GetParam().file); });
}
INSTANTIATE_TEST_SUITE_P(Rows, BrokenImage,
                         testing::Values(Broken{"empty", "", "an empty file"}, Broken{"text", "hello", "not an image"},
                                         Broken{"gif", "GIF89a....", "a GIF, which is not read: convert it to one of "},
                                         Broken{"pnm_short", "P6 2 2 255\nabc", "2x2 pixels take 12 bytes, 3 follow"},
                                         Broken{"pnm_no_pixels", "P6 2 2", "no three numbers"},
                                         Broken{"pnm_zero", "P6 0 2 255\n", "it is 0x2 pixels"},
                                         Broken{"pnm_huge", "P6 99999999 99999999 255\n", "more than 134217728 are not read"},
                                         Broken{"jpeg_start", "\xff\xd8\xff", "JPEG"}, Broken{"png_start", "\x89PNG\r\n\x1a\n", "PNG"},
                                         Broken{"webp_start", std::string("RIFF\x04\0\0\0WEBP", 12), "WebP"}),
                         [](const auto& i) { return i.param.name; });

// A JPEG without its end, and a PNG of a few bytes that would take a gigabyte, are told by what does not decode them.
TEST(Image, IsCheckedByHeaderAndEnd) {
  const auto refused = [](const std::string& file, const char* says) {
    expect_error(ExitCode::data, says, [&] { check_image(bytes_of(file), "test.img"); });
  };
  check_image(bytes_of("P5 1 1 255\nz"), "test.img");
  refused("P5 2 2 255\nz", "4 bytes, 1 follow");
  refused("GIF89a....", "a GIF, which is not read");
  if (reads(".png")) {
    const auto header = [](unsigned char side) {
      std::string png("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x08\0\0\0\x08\0\x08\0\0\0\0", 29);
      png[18] = png[22] = static_cast<char>(side);
      const auto crc = static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17));
      for (int shift = 24; shift >= 0; shift -= 8) png += static_cast<char>(crc >> shift);
      return png + std::string("\0\0\0\0IDAT\x35\xaf\x06\x1e", 12) + std::string(2000, 'x');
    };
    refused(header(0x80), "more than 134217728 are not read");       // 32768 x 32768
    refused(header(0x20), "its header says 8192x8192 pixels, which ");
    expect_error(ExitCode::data, "bytes cannot hold", [&] { decoded(header(0x20)); });
    refused(header(0x01), "the file ends too early");
  }
}

TEST(Image, CentreBoxIsTorchvisions) {
  EXPECT_EQ(centre_box(11, 8, 8, 8).top, 2);   // round(1.5)
  EXPECT_EQ(centre_box(9, 8, 8, 8).top, 0);    // round(0.5), to the even one
  EXPECT_EQ(centre_box(256, 341, 224, 224).left, 58);  // round(58.5)
}

}  // namespace
}  // namespace tandem
