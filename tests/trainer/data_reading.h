// What tests of data formats share: a data set as text, and a model's wishes.
#pragma once
#include <vector>

#include "data/dataset.h"

namespace tandem {

// All fields with all values, last sample first so that reads are out of order:
// "x float32[2]: 3 4, 1 2; label y int64[]: 1, 0; image i: 5 bytes, 7 bytes".
inline std::string shown(const Dataset& data) {
  std::string s;
  for (std::size_t f = 0; f < data.fields().size(); ++f) {
    const Field& field = data.fields()[f];
    s += concat(s.empty() ? "" : "; ", field.role == Role::label ? "label " : field.role == Role::weight ? "weight " : "", field.name, ' ');
    s += field.encoded ? "image:" : concat(field.sample, ':');
    for (std::int64_t i = data.size(); i-- > 0;) {
      s += i + 1 < data.size() ? "," : "";
      if (field.encoded) {
        std::vector<std::byte> bytes;
        data.encoded(f, i, bytes);
        s += concat(' ', bytes.size(), " bytes");
        continue;
      }
      visit_number(field.sample.dtype, [&]<class T>() {
        std::vector<std::byte> bytes(static_cast<std::size_t>(field.sample.shape.elements()) * sizeof(T));
        data.read(f, {&i, 1}, bytes.data());
        for (const T v : std::span(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)))
          s += concat(' ', text_of(static_cast<double>(v)));
      });
    }
  }
  return s;
}

inline std::string notes_of(const Dataset& data) {
  std::string all;
  for (const std::string& note : data.notes()) all += note + "\n";
  return all;
}

// A classifier of four numbers.
inline DataRequest four_numbers() {
  return {.inputs = {{.name = "x", .sample = {DType::float32, {4}}}}, .label = {DType::int64, {}}, .classes = 3};
}

// A regression with two inputs of other kinds.
inline DataRequest two_inputs() {
  return {.inputs = {{.name = "a", .sample = {DType::float32, {2}}}, {.name = "n", .sample = {DType::int64, {}}}},
          .label = {DType::float32, {1}}};
}

}  // namespace tandem
