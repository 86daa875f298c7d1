#include "tests/fuzz/data_formats.h"

#include <zlib.h>

#include <vector>

#include "data/npy.h"
#include "data/zip.h"

namespace tandem::fuzz {
namespace {

template <class T>
Tensor counted(DType dtype, const Shape& shape) {
  Tensor t(TensorType{dtype, shape});
  T next = 0;
  for (T& v : t.write<T>()) {
    v = next;
    next = static_cast<T>(next < 9 ? next + 1 : 0);
  }
  return t;
}

std::string idx_of(const std::vector<int>& dims) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  std::size_t elements = 1;
  for (const int d : dims) {
    bytes += std::string(3, '\0') + static_cast<char>(d);
    elements *= static_cast<std::size_t>(d);
  }
  for (std::size_t i = 0; i < elements; ++i) bytes += static_cast<char>(i % 10);
  return bytes;
}

std::string npz() {
  std::string bytes;
  ZipWriter zip([&](std::string_view piece) { bytes += piece; });
  zip.add("x_train.npy", npy_of(counted<float>(DType::float32, {6, 4})));
  zip.add("y_train.npy", npy_of(counted<std::int64_t>(DType::int64, {6})));
  zip.add("x_test.npy", npy_of(counted<std::uint8_t>(DType::uint8, {2, 4, 4, 1})));
  zip.add("z_test.npy", npy_of(counted<std::int32_t>(DType::int32, {2, 2})));
  zip.add("labels_test.npy", npy_of(counted<double>(DType::float64, {2, 3})));
  zip.finish();
  return bytes;
}

}  // namespace

std::string gzip(const std::string& contents) {
  std::string out(contents.size() + contents.size() / 1000 + 64, '\0');
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  z.avail_in = static_cast<uInt>(contents.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

std::span<const DataFormat> data_formats() {
  static const std::string images = idx_of({2, 4, 4}), labels = idx_of({2}), batch = std::string(1, '\3') + std::string(3072, '\x40');
  static const DataFormat formats[] = {
      {"npy", "", "x.npy", Coding::npy, npy_of(counted<double>(DType::float64, {3, 4})), "", ""},
      {"npz", "npz", "x.npz", Coding::zip, npz(), "", ""},
      {"idx_images", "idx", "t10k-images-idx3-ubyte", Coding::plain, images, "t10k-labels-idx1-ubyte", labels},
      {"idx_labels", "idx", "t10k-labels-idx1-ubyte", Coding::plain, labels, "t10k-images-idx3-ubyte", images},
      {"idx_gzip", "idx", "t10k-images-idx3-ubyte.gz", Coding::gzip, gzip(images), "t10k-labels-idx1-ubyte", labels},
      {"npy_files", "npy", "x.npy", Coding::npy, npy_of(counted<double>(DType::float64, {3, 4})), "", ""},
      {"csv", "csv", "x.csv", Coding::plain, "a,b,\"c\",d,label\r\n1,2.5,-3e1,4,cat\n5,,\"7\",8,\"a \"\"dog\"\"\"\n", "", ""},
      {"jsonl", "jsonl", "x.jsonl", Coding::plain, "{\"x\": [1, 2, 3, 4], \"label\": \"cat\"}\n{\"x\": [5, 6.5, 7, 8], \"label\": \"ant\", \"m\": {\"n\": null}}\n", "", ""},
      {"text", "text", "x.txt", Coding::plain, "the quick brown f\xc3\xb6x jumps over the lazy dog", "", ""},
      {"cifar10", "cifar10", "test_batch.bin", Coding::plain, batch, "", ""},
      {"cifar10_gzip", "cifar10", "test_batch.bin.gz", Coding::gzip, gzip(batch), "", ""},
  };
  return formats;
}

}  // namespace tandem::fuzz
