// Large weights of a model's file stay there: what is read of them, what is written, and what a file does that is not as it should be.
#include <gtest/gtest.h>

#include <functional>

#include "importer/message/skeleton.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

constexpr std::int64_t wide = 256, elements = wide * wide;  // 256 KiB

std::vector<float> counted() {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) * 0.01F;
  return values;
}

onnx::TensorProto raw(const std::string& name) {
  onnx::TensorProto t = dims_only(name, {wide, wide});
  const std::vector<float> values = counted();
  t.set_raw_data(values.data(), values.size() * sizeof(float));
  return t;
}
onnx::TensorProto typed(const std::string& name) {
  onnx::TensorProto t = dims_only(name, {wide, wide});
  for (const float v : counted()) t.add_float_data(v);
  return t;
}

Model model_of(const onnx::TensorProto& weight) {
  Model m;
  m.input("x", concat("N,", wide)).output("y").add(weight).add(node("MatMul", {"x", weight.name()}, {"y"}));
  return m;
}

const Tensor& held(const Graph& graph, const std::string& name) { return *graph[*graph.find(name)].data; }

struct Row {
  const char* name;
  std::function<onnx::TensorProto(const std::string&)> weight;
};
const Row forms[] = {{"raw", raw}, {"typed", typed}};

TEST(Skeleton, LargeWeightsAreReadWhenTheyAreAskedFor) {
  for (const Row& row : forms) {
    SCOPED_TRACE(row.name);
    const TemporaryFolder folder;
    write_file(folder / "m.onnx", model_of(row.weight("w")).bytes());
    const ModelFile file = ModelFile::read(folder / "m.onnx");
    const Tensor weight = held(file.graph({.batch = 1}), "w");
    EXPECT_FALSE(weight.in_memory());
    EXPECT_TRUE(std::ranges::equal(weight.values<float>(), counted()));
    file.release_values();
    EXPECT_FALSE(weight.in_memory());
  }
}

TEST(Skeleton, WhatIsWrittenIsWhatAMemoryHeldMessageWrites) {
  for (const Row& row : forms) {
    SCOPED_TRACE(row.name);
    const TemporaryFolder folder;
    Model model = model_of(row.weight("w"));
    model.add(row.weight("unread"));
    write_file(folder / "m.onnx", model.bytes());
    const ModelFile from_file = ModelFile::read(folder / "m.onnx"), from_memory = model.parse();
    EXPECT_EQ(from_file.fingerprint(), from_memory.fingerprint());
    from_file.write(folder / "as_it_was.onnx", {});
    EXPECT_EQ(read_whole(folder / "as_it_was.onnx"), model.bytes());
    const ModelFile::Weight other{"w", Tensor(TensorType{DType::float32, Shape{wide, wide}})};
    from_file.write(folder / "a.onnx", {other});
    from_memory.write(folder / "b.onnx", {other});
    EXPECT_EQ(read_whole(folder / "a.onnx"), read_whole(folder / "b.onnx"));
    const std::int64_t bytes = static_cast<std::int64_t>(model.bytes().size());
    EXPECT_LT(std::abs(from_file.check_write(folder / "c.onnx") - bytes), 64);
  }
}

// A change is found when values are read: what stands in memory already cannot be mixed with another file's.
TEST(Skeleton, AFileThatHasChangedIsNotReadAnyMore) {
  const TemporaryFolder folder;
  Model model = model_of(raw("w"));
  model.add(raw("unread"));
  write_file(folder / "m.onnx", model.bytes());
  const ModelFile file = ModelFile::read(folder / "m.onnx");
  write_file(folder / "m.onnx", model.bytes() + std::string(1, '\0'));
  for (const auto& use :
       {std::function<void()>([&] { held(file.graph({.batch = 1}), "w").bytes(); }), {[&] { file.write(folder / "o.onnx", {}); }}})
    try {
      use();
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::model);
      EXPECT_NE(std::string(e.what()).find("has changed while it is in use"), std::string::npos) << e.what();
    }
  EXPECT_FALSE(std::filesystem::exists(folder / "o.onnx"));
}

TEST(Skeleton, MayBeReplacedByTheModelThatIsTrainedFromIt) {
  const TemporaryFolder folder;
  Model model = model_of(raw("w"));
  model.add(raw("unread"));
  write_file(folder / "m.onnx", model.bytes());
  const ModelFile file = ModelFile::read(folder / "m.onnx");
  for (int i = 0; i < 2; ++i) file.write(folder / "m.onnx", {});
  EXPECT_EQ(read_whole(folder / "m.onnx"), model.bytes());
}

// Files that are odd are read as they were before: whole, with the same errors.
TEST(Skeleton, IsNotMadeOfOddTensors) {
  const auto changed = [](const std::function<void(onnx::TensorProto&)>& change) {
    onnx::TensorProto t = raw("w");
    change(t);
    return t;
  };
  const struct {
    const char* what;
    onnx::TensorProto weight;
    const char* error;
  } rows[] = {
      {"two places", changed([](auto& t) { t.add_float_data(1); }), "has values in two places"},
      {"too few bytes", changed([](auto& t) { t.mutable_raw_data()->resize(200'000); }), "has 200000 bytes"},
      {"segments", changed([](auto& t) { t.mutable_segment()->set_begin(1); }), "segments"},
      {"another type's list", changed([](auto& t) { t = typed("w"); t.set_data_type(onnx::TensorProto::DOUBLE); }), "has its values in float_data"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    const TemporaryFolder folder;
    write_file(folder / "m.onnx", model_of(row.weight).bytes());
    try {
      ModelFile::read(folder / "m.onnx").graph({.batch = 1});
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(row.error), std::string::npos) << e.what();
    }
  }
}

TEST(Skeleton, OfAFileThatBreaksOffSaysWhere) {
  const TemporaryFolder folder;
  const std::string whole = model_of(raw("w")).bytes();
  write_file(folder / "m.onnx", whole.substr(0, whole.size() - 100));
  try {
    ModelFile::read(folder / "m.onnx");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("cut off or damaged"), std::string::npos) << e.what();
  }
}

// Only values that were left out may be said to lie in the model's own file.
TEST(Skeleton, IsNoWayToReadTheFileAtAnyPlace) {
  for (const char* offset : {"0", "100"}) {
    const TemporaryFolder folder;
    Model model = model_of(raw("w"));
    model.add(external_tensor("v", {wide}, {{"location", std::string(own_raw)}, {"offset", offset}})).add(node("Add", {"y", "v"}, {"z"}));
    model.output("z");
    write_file(folder / "m.onnx", model.bytes());
    try {
      ModelFile::read(folder / "m.onnx").graph({.batch = 1});
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("not a path within"), std::string::npos) << e.what();
    }
  }
}

// As many fields of any kind as a model may have, around the weights.
TEST(Skeleton, KeepsUnknownFieldsAndTheirOrder) {
  const TemporaryFolder folder;
  Model model = model_of(raw("w"));
  std::string bytes = model.bytes();
  bytes += "\xa2\x06\x03" "abc" "\xa8\x06\x01" "\xad\x06" "1234" "\xa9\x06" "12345678";  // fields 100, 101 of all wire types
  write_file(folder / "m.onnx", bytes);
  ModelFile::read(folder / "m.onnx").write(folder / "o.onnx", {});
  EXPECT_EQ(read_whole(folder / "o.onnx").size(), bytes.size());
  onnx::ModelProto was, now;
  ASSERT_TRUE(was.ParseFromString(bytes) && now.ParseFromString(read_whole(folder / "o.onnx")));
  EXPECT_EQ(was.SerializeAsString(), now.SerializeAsString());
}

}  // namespace
}  // namespace tandem::test
