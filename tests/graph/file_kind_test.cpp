#include "base/file_kind.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using namespace std::string_view_literals;

TEST(FileKinds, AreToldByHowTheyBegin) {
  const struct {
    std::string_view bytes, what;
  } rows[] = {
      {"", "an empty file"},
      {"\x89PNG\r\n\x1a\n", "a PNG image"},
      {"\xff\xd8\xff\xe0", "a JPEG image"},
      {"RIFF\x10\0\0\0WEBPVP8 "sv, "a WebP image"},
      {"BM\x46\0\0\0\0\0\0\0\x36\0\0\0"sv, "a BMP image"},
      {"BMI,age,label\n22.5,30,1\n", "text"},
      {"\x1f\x8b\x08", "a gzip file (gunzip unpacks it)"},
      {"PK\x03\x04..........................archive/data.pkl", "a PyTorch file (a zip archive of pickles)"},
      {"\x80\x04\x95.", "a Python pickle"},
      {"\x10\0\0\0\0\0\0\0{\"w\":{}}"sv, "a safetensors file"},
      {" \n{\"a\": 1}", "a JSON file"},
      {"\r\n<!DocType html>", "an HTML page, as a server sends in place of a file"},
      {"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer in place of the file (git lfs pull fetches it)"},
      {"ir_version: 8\n", "an ONNX model in protobuf's text form"},
      {"größe", "text"},
      {"\x08\x08\x12\x02ab:\x05", ""},  // an ONNX model, which is not asked about
      {"\xfe\xff\0a"sv, ""},
  };
  for (const auto& row : rows) EXPECT_EQ(kind_of_file(row.bytes), row.what) << row.bytes;
  EXPECT_EQ(it_is("\x08\x08\x12"), "");
  EXPECT_TRUE(stands_in("<html>"));
  EXPECT_FALSE(stands_in("a,b\n"));
}

}  // namespace
}  // namespace tandem
