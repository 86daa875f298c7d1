// numpy's array files. Versions 1 to 3 of the header, little-endian numbers, both element orders.
// Source: numpy.lib.format's documentation.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace tandem {

struct NpyHeader {
  DType stored = DType::undefined;
  Shape shape;
  bool fortran = false;     // the first axis changes fastest
  std::uint64_t begin = 0;  // of the elements
  DType dtype() const { return stored == DType::float16 ? DType::float32 : stored; }  // as it is read
};
// Of a file of so many bytes that begins with `bytes`. Fails (data) where they contradict each other.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, std::uint64_t file_bytes, std::string_view what);
void floats_of_halves(const std::byte* halves, std::size_t count, float* to);

// An array of samples as an input: images are told by their shape.
Field array_field(std::string name, DType dtype, const Shape& shape);

// An array as the value of a model's input that holds no samples. Fails (data) where its shape is another, naming `what`.
Tensor constant_of(const Field& input, Tensor array, std::string_view what);

// Float16 becomes float32. Fails (data), naming `what`, on anything that is not a whole array.
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view what);
// A file's header, and its elements as they lie in the tensor, or cast to a type that npy has. Fails (data) where it has none.
struct NpyFile {
  std::string header;
  Tensor tensor;
  std::string_view elements() const {
    return {reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()};
  }
};
NpyFile npy_file_of(const Tensor& tensor);
std::string npy_of(const Tensor& tensor);  // the whole file

}  // namespace tandem
