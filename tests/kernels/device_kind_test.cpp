// Descriptions of devices: those that the program knows, and what is said of nonsense.
#include "kernels/described/device_kind.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

TEST(DeviceKinds, KnownOnesAreReadAndWritten) {
  const std::vector<DeviceKind>& kinds = known_device_kinds();
  ASSERT_EQ(kinds.size(), 19u);
  Json::Array list;
  for (const DeviceKind& kind : kinds) {
    EXPECT_FALSE(kind.links.levels.empty()) << kind.name;
    EXPECT_FALSE(kind.source.empty()) << kind.name;
    list.push_back(to_json(kind));
  }
  const std::vector<DeviceKind> again = read_device_kinds(Json::parse(Json(Json::Object{{"devices", list}}).dump()), "again");
  ASSERT_EQ(again.size(), kinds.size());
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    EXPECT_EQ(again[k].name, kinds[k].name);
    EXPECT_DOUBLE_EQ(again[k].flops.at(Precision::fp32), kinds[k].flops.at(Precision::fp32)) << kinds[k].name;
    EXPECT_DOUBLE_EQ(again[k].memory, kinds[k].memory) << kinds[k].name;
    EXPECT_EQ(again[k].links.levels.size(), kinds[k].links.levels.size()) << kinds[k].name;
  }
}

TEST(DeviceKinds, AreFoundByWhatADeviceSaysOfItself) {
  EXPECT_EQ(device_kind_of("NVIDIA H100 80GB HBM3")->name, "h100");
  EXPECT_EQ(device_kind_of("NVIDIA A100-SXM4-40GB")->name, "a100-40");
  EXPECT_EQ(device_kind_of("some other"), nullptr);
}

TEST(DeviceKinds, FormatsThatADeviceLacksAreAbsent) {
  EXPECT_FALSE(find_device_kind(known_device_kinds(), "v100-16")->flops.contains(Precision::bf16));
  EXPECT_FALSE(find_device_kind(known_device_kinds(), "titan-x")->flops.contains(Precision::fp16));
  EXPECT_TRUE(find_device_kind(known_device_kinds(), "h200")->flops.contains(Precision::fp8));
}

TEST(DeviceKinds, NonsenseIsNamed) {
  const auto message = [](std::string device) {
    try {
      read_device_kinds(Json::parse(R"({"devices": [)" + device + "]}"), "f.json");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string head = R"({"name": "x", "memory_gib": 4, "memory_gbs": 100, "tflops": {"fp32": 1})";
  EXPECT_EQ(message(head + "}"), "");
  struct Row {
    std::string device, wanted;
  };
  for (const Row& row : {
           Row{R"({"name": "x", "memory_gib": 0, "memory_gbs": 100, "tflops": {"fp32": 1}})", "device 0 'x': memory_gib is 0, expected a number above 0"},
           Row{R"({"name": "x", "memory_gib": 4, "tflops": {"fp32": 1}})", "memory_gbs is missing"},
           Row{R"({"name": "x", "memory_gib": 4, "memory_gbs": 1, "tflops": {"fp32": -3}})", "tflops: fp32 is -3"},
           Row{R"({"name": "x", "memory_gib": 4, "memory_gbs": 1, "tflops": {"bf16": 3}})", "tflops: fp32 is missing"},
           Row{R"({"name": "x", "memory_gib": 4, "memory_gbs": 1, "tflops": {"fp32": 3, "b16": 1}})", "did you mean 'bf16'?"},
           Row{R"({"name": "cuda", "memory_gib": 4, "memory_gbs": 1, "tflops": {"fp32": 3}})", "name is 'cuda', expected"},
           Row{head + R"(, "memry": 3})", "unknown member 'memry'"},
           Row{head + R"(, "links": [{"link": "a", "devices": 1, "gbs": 3}]})", "link 0: devices is 1, expected a whole number from 2"},
           Row{head + R"(, "links": [{"link": "a", "devices": 8, "gbs": 3}, {"link": "b", "devices": 4, "gbs": 3}]})", "devices is 4, expected a multiple of the 8"},
           Row{head + R"(, "links": [{"link": "a", "gbs": 3}, {"link": "b", "gbs": 3}]})", "no link behind one that joins all"},
           Row{head + R"(, "links": [{"link": "a", "gbs": 0}]})", "gbs is 0"},
           Row{head + R"(, "achieved": {"products": 1.5}})", "products is 1.5"},
           Row{head + "}, " + head + "}", "'x' again"},
           Row{R"({"name": "x", "memory_gib": "4"})", "f.json, device 0"},
       })
    EXPECT_NE(message(row.device).find(row.wanted), std::string::npos) << row.device << "\n" << message(row.device);
}

}  // namespace
}  // namespace tandem
