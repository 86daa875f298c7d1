// Where the external data of an exported model go: into files that are named here, over nobody else's.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;

Tensor filled(const Shape& shape, float value) {
  const std::vector<float> values(static_cast<std::size_t>(shape.elements()), value);
  return Tensor::of<float>(shape, std::span(values));
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// A model of two matrices in an external file, with something else between them.
struct Site {
  TemporaryFolder folder, out;
  explicit Site(const std::string& location = "data.bin") {
    fs::create_directories((folder / location).parent_path());
    write_file(folder / location, floats({0, 1, 2, 3, 99, 4, 5, 6, 7}));
    Model m;
    m.input("x", "N,2").output("y");
    m.add(external_tensor("w", {2, 2}, {{"location", location}, {"offset", "0"}, {"length", "16"}}))
        .add(external_tensor("v", {2, 2}, {{"location", location}, {"offset", "20"}}));
    m.add(node("MatMul", {"x", "w"}, {"h"})).add(node("MatMul", {"h", "v"}, {"y"}));
    write_file(folder / "m.onnx", m.bytes());
  }
  ModelFile model() const { return ModelFile::read(folder / "m.onnx"); }
};

std::vector<double> values_of(const fs::path& model, const std::string& name) {
  const Graph graph = ModelFile::read(model).graph({.batch = 1});
  return graph[*graph.find(name)].data->to_doubles();
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

template <class F>
std::string error_of(ExitCode code, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

// Twice, so that both names of the data and the mark beside them are made.
TEST(ExportExternal, TheOutputsNameMayBeAsLongAsAFilesName) {
  const Site site;
  const std::string name = std::string(250, 'o') + ".onnx";
  for (const float value : {40.0F, 41.0F, 42.0F}) {
    site.model().write(site.out / name, {{"v", filled(Shape{2, 2}, value)}});
    EXPECT_EQ(values_of(site.out / name, "v"), std::vector<double>(4, value));
    EXPECT_EQ(files_in(site.out.path()).size(), 2u);
  }
}

TEST(ExportExternal, GoesIntoOneFileNamedAfterTheOutput) {
  for (const char* location : {"data.bin", ".bashrc", ".ssh/authorized_keys", "out.onnx"}) {
    const Site site(location);
    fs::create_directories((site.out / location).parent_path());
    if (location != std::string("out.onnx")) write_file(site.out / location, "mine");
    site.model().write(site.out / "out.onnx", {{"v", filled(Shape{2, 2}, 40)}});
    EXPECT_EQ(values_of(site.out / "out.onnx", "w"), (std::vector<double>{0, 1, 2, 3})) << location;
    EXPECT_EQ(values_of(site.out / "out.onnx", "v"), (std::vector<double>{40, 40, 40, 40})) << location;
    EXPECT_TRUE(fs::exists(site.out / "out.onnx.data"));
    if (location != std::string("out.onnx")) {
      EXPECT_EQ(read_whole(site.out / location), "mine");
    }
    EXPECT_EQ(read_whole(site.folder / location), floats({0, 1, 2, 3, 99, 4, 5, 6, 7})) << "the template's own";
  }
}

TEST(ExportExternal, NeverReplacesAnothersFile) {
  const Site site;
  write_file(site.out / "out.onnx.data", "mine");
  const auto write = [&](const SaveOptions& options) { site.model().write(site.out / "out.onnx", {}, options); };
  EXPECT_NE(error_of(ExitCode::usage, [&] { write({}); }).find("is there already"), std::string::npos);
  EXPECT_NE(error_of(ExitCode::usage, [&] { site.model().check_write(site.out / "out.onnx"); }).find("is there already"),
            std::string::npos);
  EXPECT_EQ(read_whole(site.out / "out.onnx.data"), "mine");
  EXPECT_EQ(files_in(site.out.path()), (std::vector<std::string>{"out.onnx.data"}));
  write({.overwrite = true});
  EXPECT_EQ(values_of(site.out / "out.onnx", "v"), (std::vector<double>{4, 5, 6, 7}));
}

// By turns, so that a process that is killed between two files leaves the old model whole.
TEST(ExportExternal, AModelIsReplacedTogetherWithItsData) {
  const Site site;
  float value = 0;
  for (const std::string data : {"out.onnx.data", "out.onnx.2.data", "out.onnx.data"}) {
    ++value;
    site.model().write(site.out / "out.onnx", {{"w", filled(Shape{2, 2}, value)}});
    EXPECT_EQ(values_of(site.out / "out.onnx", "w"), (std::vector<double>(4, value)));
    std::vector<std::string> files{"out.onnx", data};
    std::sort(files.begin(), files.end());
    EXPECT_EQ(files_in(site.out.path()), files);
  }
}

TEST(ExportExternal, WhatAKilledWriteLeftIsReplaced) {
  const Site site;
  write_file(site.out / "out.onnx.data", "of a write that was killed before its model had its name");
  write_file(site.out / ".out.onnx.unfinished", "");
  site.model().check_write(site.out / "out.onnx");
  site.model().write(site.out / "out.onnx", {});
  EXPECT_EQ(values_of(site.out / "out.onnx", "v"), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(files_in(site.out.path()), (std::vector<std::string>{"out.onnx", "out.onnx.data"}));
}

TEST(ExportExternal, OverTheTemplateItselfKeepsItsOldData) {
  const Site site;
  site.model().write(site.folder / "m.onnx", {{"w", filled(Shape{2, 2}, 40)}});
  EXPECT_EQ(values_of(site.folder / "m.onnx", "w")[0], 40);
  EXPECT_EQ(read_whole(site.folder / "data.bin"), floats({0, 1, 2, 3, 99, 4, 5, 6, 7}));
}

TEST(ExportExternal, FollowsNoLink) {
  const Site site;
  write_file(site.folder / "precious", "mine");
  fs::create_symlink(site.folder / "precious", site.out / "out.onnx.data");
  EXPECT_NE(error_of(ExitCode::usage, [&] { site.model().write(site.out / "out.onnx", {}, {.overwrite = true}); }), "");
  EXPECT_EQ(read_whole(site.folder / "precious"), "mine");
}

TEST(ExportExternal, TheTemplatesNamesOnlyWhereAskedForAndPlain) {
  const SaveOptions keep{.keep_external_layout = true};
  const Site site;
  site.model().write(site.out / "out.onnx", {}, keep);
  EXPECT_EQ(files_in(site.out.path()), (std::vector<std::string>{"data.bin", "out.onnx"}));
  for (const char* location : {".bashrc", "sub/data.bin", "out.onnx"}) {
    const Site other(location);
    EXPECT_NE(error_of(ExitCode::usage, [&] { other.model().write(other.out / "out.onnx", {}, keep); }).find("no plain file name"),
              std::string::npos)
        << location;
    EXPECT_TRUE(fs::is_empty(other.out.path()));
  }
}

TEST(ExportExternal, TensorsThatShareARegionMayBecomeDifferent) {
  const TemporaryFolder folder;
  write_file(folder / "d", floats({1, 2, 3, 4}));
  Model m;
  m.input("x", "N,2").output("y").add(node("MatMul", {"x", "w"}, {"h"})).add(node("MatMul", {"h", "v"}, {"y"}));
  for (const char* name : {"w", "v"}) m.add(external_tensor(name, {2, 2}, {{"location", "d"}}));
  write_file(folder / "m.onnx", m.bytes());
  ModelFile::read(folder / "m.onnx").write(folder / "out.onnx", {{"w", filled(Shape{2, 2}, 8)}});
  EXPECT_EQ(values_of(folder / "out.onnx", "w")[0], 8);
  EXPECT_EQ(values_of(folder / "out.onnx", "v")[0], 1);
}

// Weights that a template's one file could not hold: here with a small limit in place of protobuf's 2 GiB.
TEST(ExportExternal, AModelTooLargeForOneFileKeepsItsWeightsBesideIt) {
  Model m;
  m.input("x", "N,64").output("y").add(filled_tensor("w", {64, 64}, 3)).add(filled_tensor("b", {64}, 2));
  m.add(node("MatMul", {"x", "w"}, {"h"})).add(node("Add", {"h", "b"}, {"y"}));
  const TemporaryFolder folder;
  m.parse().write(folder / "out.onnx", {{"w", filled(Shape{64, 64}, 5)}}, {.inline_bytes = 8192});
  EXPECT_EQ(fs::file_size(folder / "out.onnx.data"), 64 * 64 * 4u);  // the small bias stays
  EXPECT_EQ(values_of(folder / "out.onnx", "w")[63], 5);
  EXPECT_EQ(values_of(folder / "out.onnx", "b")[63], 2);
}

TEST(ExportExternal, DataThatWentMissingIsKnownBeforeTraining) {
  const Site site;
  const ModelFile model = site.model();
  EXPECT_NO_THROW(model.check_write(site.out / "out.onnx"));
  fs::resize_file(site.folder / "data.bin", 20);
  const std::string said = error_of(ExitCode::model, [&] { model.check_write(site.out / "out.onnx"); });
  EXPECT_NE(said.find("external data 'data.bin': bytes 20 to 20+16 lie outside its 20 bytes"), std::string::npos)
      << said;  // as the importer says it
  fs::remove(site.folder / "data.bin");
  EXPECT_THROW(model.check_write(site.out / "out.onnx"), Error);
  EXPECT_TRUE(fs::is_empty(site.out.path()));
}

}  // namespace
}  // namespace tandem::test
