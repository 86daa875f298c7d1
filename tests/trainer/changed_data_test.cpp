// Data files that somebody changes while a run reads them: the data are blamed, with what changed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "base/file.h"
#include "data/dataset.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

void make_younger(const std::filesystem::path& path) {
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(5));
}

std::string npy(const std::string& type, const std::string& shape, std::size_t bytes) {
  std::string header = concat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(117, ' ');
  return concat(std::string("\x93NUMPY\x01\x00\x76\x00", 10), header, '\n', std::string(bytes, '\0'));
}

TEST(ChangedData, OfAFileThatIsReadAsItIsNeeded) {
  const TemporaryFolder folder;
  const std::string x = folder.write("x.npy", npy("<f4", "(50, 4)", 800)), y = folder.write("y.npy", npy("<i8", "(50,)", 400));
  const auto open = [&] {
    return open_data(concat("npy:", x, ",", y),
                     {.inputs = {{.name = "x", .sample = {DType::float32, {4}}}}, .label = {DType::int64, {}}, .classes = 3});
  };
  const Splits splits = open();
  const std::int64_t last = 49;
  float values[4];
  const auto read = [&](const Splits& from) { from.train->read(0, {&last, 1}, reinterpret_cast<std::byte*>(values)); };
  read(splits);
  const std::string whole = read_file(x);
  std::filesystem::resize_file(x, 500);
  expect_error(ExitCode::data, x + ": has changed while it is in use: it has 500 bytes, it had 928", [&] { read(splits); });
  folder.write("x.npy", whole);
  const Splits again = open();
  read(again);
  make_younger(x);
  expect_error(ExitCode::data, x + ": has changed while it is in use: its time of modification is another", [&] { read(again); });
  folder.write("x.npy", whole);
  const Splits moved = open();  // one that takes the name of a file in use does not change it
  write_atomically(x, npy("<f4", "(2, 4)", 32));
  read(moved);
}

TEST(ChangedData, OfImageFilesIsFoundWhereverTheyAreReadAgain) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "d/a");
  const std::string picture = "P6 2 1 255\nabcdef", path = folder.write("d/a/1.ppm", picture);
  const Splits splits = open_data("images:" + (folder / "d").string());
  std::vector<std::byte> bytes;
  const auto read = [&] { splits.train->encoded(0, 0, bytes); };
  read();
  read();
  EXPECT_EQ(bytes.size(), picture.size());
  folder.write("d/a/1.ppm", picture + "gh");
  expect_error(ExitCode::data, path + ": has changed while it is in use: it has 19 bytes, it had 17", read);
  folder.write("d/a/1.ppm", picture);
  make_younger(path);
  expect_error(ExitCode::data, path + ": has changed while it is in use: its time of modification is another", read);
  std::filesystem::remove(path);
  expect_error(ExitCode::data, path + ": has gone while it is in use", read);
}

}  // namespace
}  // namespace tandem
