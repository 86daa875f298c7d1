// NumPy arrays as the library's data and tensors, and the library's tensors as NumPy arrays.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "data/dataset.h"

namespace tandem::python {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
// (name, "input", "label" or "weight", values)
using NamedArray = std::tuple<std::string, std::string, Array>;
using Arrays = std::vector<NamedArray>;

Role role_of(const std::string& role);

// Samples where the caller's arrays hold them, along axis 0.
class ArrayDataset final : public Dataset {
 public:
  // Fails (data) where it has another number of samples than the arrays before.
  void add(const std::string& name, Role role, Array array);
  void add_constant(const std::string& input, const Array& array);
  std::string name() const override { return "arrays"; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override;
  std::map<std::string, Tensor> constants() const override { return constants_; }

 private:
  std::vector<Field> fields_;
  std::vector<Array> arrays_;
  std::vector<std::size_t> bytes_;  // of a sample, by field
  std::map<std::string, Tensor> constants_;
  std::int64_t size_ = 0;
};

// Samples of a Python iterable, `size` of them an epoch.
struct Batches {
  nb::object next;  // next(count): the next samples, an array of each field
  std::int64_t size;
  Arrays first;  // the first batch's arrays, for their names, roles and types
};
std::unique_ptr<Dataset> dataset_of(const Batches& batches);

// A copy. Fails (data) where the library has no such element type.
Tensor tensor_of(const Array& array);
Tensor view_of(const Array& array);  // no copy: as long as the array is there
// No copy: the array keeps the tensor's storage.
nb::object array_of(Tensor tensor);

}  // namespace tandem::python
