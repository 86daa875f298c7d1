// Tensors beside the model: what is read, and every way out of the folder that is refused.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;
using Entries = std::vector<std::pair<std::string, std::string>>;

std::string floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

Model model_with(const Entries& entries) {
  Model m;
  m.input("x", "N,2").output("y").add(external_tensor("w", {2, 2}, entries)).add(node("MatMul", {"x", "w"}, {"y"}));
  return m;
}

// A folder with a file of six floats, the model's folder within it.
struct Site {
  TemporaryFolder outer;
  fs::path folder = outer / "model";
  Site() {
    fs::create_directory(folder);
    write_file(folder / "data.bin", floats({0, 1, 2, 3, 4, 5}));
    write_file(outer / "outside.bin", floats({9, 9, 9, 9}));
  }
  std::string report(const Entries& entries) const {
    write_file(folder / "m.onnx", model_with(entries).bytes());
    try {
      ModelFile::read(folder / "m.onnx").graph({.batch = 1});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
};

struct Row {
  std::string name;
  std::function<void(const Site&)> prepare;
  Entries entries;
  std::string reason;  // empty: it is read
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

const auto nothing = [](const Site&) {};
// clang-format off
const Row rows[] = {
    {"plain", nothing, {{"location", "data.bin"}, {"length", "16"}}, ""},
    {"offset", nothing, {{"location", "data.bin"}, {"offset", "8"}, {"length", "16"}}, ""},
    {"length_absent", nothing, {{"location", "data.bin"}, {"offset", "8"}}, ""},
    {"checksum", nothing, {{"location", "data.bin"}, {"checksum", "00"}}, ""},
    {"dot", nothing, {{"location", "./data.bin"}}, ""},
    {"in_a_folder", [](const Site& s) { fs::create_directory(s.folder / "sub"); write_file(s.folder / "sub/d", floats({1, 2, 3, 4})); }, {{"location", "sub/d"}}, ""},
    {"link_inside", [](const Site& s) { fs::create_symlink("data.bin", s.folder / "link"); }, {{"location", "link"}}, ""},
    {"past_the_end", nothing, {{"location", "data.bin"}, {"offset", "12"}}, "lie outside"},
    {"offset_overflow", nothing, {{"location", "data.bin"}, {"offset", "9223372036854775807"}}, "lie outside"},
    {"offset_too_large", nothing, {{"location", "data.bin"}, {"offset", "99999999999999999999"}}, "expected a number"},
    {"offset_negative", nothing, {{"location", "data.bin"}, {"offset", "-4"}}, "expected a number"},
    {"offset_text", nothing, {{"location", "data.bin"}, {"offset", "4x"}}, "expected a number"},
    {"length_wrong", nothing, {{"location", "data.bin"}, {"length", "12"}}, "length is 12"},
    {"unknown_key", nothing, {{"location", "data.bin"}, {"basepath", "/"}}, "unknown key 'basepath'"},
    {"key_twice", nothing, {{"location", "data.bin"}, {"location", "data.bin"}}, "given twice"},
    {"no_location", nothing, {{"offset", "0"}}, "not a path within"},
    {"absent", nothing, {{"location", "none.bin"}}, "none.bin"},
    {"absolute", nothing, {{"location", "/etc/passwd"}}, "not a path within"},
    {"parent", nothing, {{"location", "../outside.bin"}}, "not a path within"},
    {"parent_inside", nothing, {{"location", "sub/../../outside.bin"}}, "not a path within"},
    {"backslash", nothing, {{"location", "..\\outside.bin"}}, "not a path within"},
    {"nul", nothing, {{"location", std::string("data.bin\0x", 10)}}, "not a path within"},
    {"link_out", [](const Site& s) { fs::create_symlink("../outside.bin", s.folder / "link"); }, {{"location", "link"}}, "leads out"},
    {"linked_folder_out", [](const Site& s) { fs::create_symlink("..", s.folder / "up"); }, {{"location", "up/outside.bin"}}, "leads out"},
    {"hard_link", [](const Site& s) { fs::create_hard_link(s.outer / "outside.bin", s.folder / "hard"); }, {{"location", "hard"}}, "hard links"},
    {"fifo", [](const Site& s) { ASSERT_EQ(::mkfifo((s.folder / "fifo").c_str(), 0600), 0); }, {{"location", "fifo"}}, "not a regular file"},
    {"folder", [](const Site& s) { fs::create_directory(s.folder / "sub"); }, {{"location", "sub"}}, "not a regular file"},
    {"device", [](const Site& s) { fs::create_symlink("/dev/zero", s.folder / "zero"); }, {{"location", "zero"}}, "leads out"},
};
// clang-format on

class External : public testing::TestWithParam<Row> {};

TEST_P(External, IsReadOrRefused) {
  const Site site;
  GetParam().prepare(site);
  const std::string report = site.report(GetParam().entries);
  if (GetParam().reason.empty()) {
    EXPECT_EQ(report, "");
  } else {
    EXPECT_NE(report.find(GetParam().reason), std::string::npos) << report;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, External, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(External, ValuesComeFromTheirOffset) {
  const Site site;
  write_file(site.folder / "m.onnx", model_with({{"location", "data.bin"}, {"offset", "8"}}).bytes());
  const Graph graph = ModelFile::read(site.folder / "m.onnx").graph({.batch = 1});
  EXPECT_EQ(graph[*graph.find("w")].data->to_doubles(), (std::vector<double>{2, 3, 4, 5}));
}

TEST(External, ReachedThroughALinkedFolder) {
  const Site site;
  write_file(site.folder / "m.onnx", model_with({{"location", "data.bin"}}).bytes());
  fs::create_directory_symlink(site.folder, site.outer / "cache");
  EXPECT_NO_THROW(ModelFile::read(site.outer / "cache/m.onnx").graph({.batch = 1}));
}

// A cache that keeps every file under its hash and links to it.
TEST(External, ModelAndDataLinkedIntoOneFolder) {
  const Site site;
  write_file(site.folder / "m.onnx", model_with({{"location", "weights"}}).bytes());
  fs::create_directory(site.outer / "snapshot");
  fs::create_symlink("../model/m.onnx", site.outer / "snapshot/m.onnx");
  fs::create_symlink("../model/data.bin", site.outer / "snapshot/weights");
  EXPECT_NO_THROW(ModelFile::read(site.outer / "snapshot/m.onnx").graph({.batch = 1}));
}

TEST(External, NoneAllowedWithoutAFolder) {
  EXPECT_NE(model_with({{"location", "data.bin"}}).report().find("has no folder"), std::string::npos);
}

TEST(External, OverlappingTensorsAreRefusedEqualOnesShared) {
  const Site site;
  const auto report = [&](const char* offset) {
    Model m = model_with({{"location", "data.bin"}});
    m.add(external_tensor("w2", {2, 2}, {{"location", "./data.bin"}, {"offset", offset}}))
        .add(node("MatMul", {"y", "w2"}, {"z"}))
        .output("z");
    write_file(site.folder / "m.onnx", m.bytes());
    try {
      ModelFile::read(site.folder / "m.onnx").graph({.batch = 1});
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(report("0"), "");
  EXPECT_NE(report("4").find("belong to another tensor"), std::string::npos);
}

// Sharing costs no memory at first; looking at each, and training each, does.
TEST(External, ManyTensorsOverOneLargeRegionAreRefused) {
  const Site site;
  fs::resize_file(site.folder / "data.bin", 16 << 20);
  Model m;
  m.input("x", "N,2048").output("h99");
  for (int i = 0; i < 100; ++i)
    m.add(external_tensor(concat("w", i), {2048, 2048}, {{"location", "data.bin"}}))
        .add(node("MatMul", {i == 0 ? "x" : concat("h", i - 1), concat("w", i)}, {concat("h", i)}));
  write_file(site.folder / "m.onnx", m.bytes());
  try {
    ModelFile::read(site.folder / "m.onnx").graph({.batch = 1});
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("more tensors share its bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tandem::test
