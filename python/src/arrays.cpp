#include "python/src/arrays.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "base/error.h"
#include "data/iterable.h"
#include "data/npy.h"

namespace tandem::python {
namespace {

struct ElementType {
  DType ours;
  nb::dlpack::dtype numpy;
};
const ElementType element_types[] = {
    {DType::float32, nb::dtype<float>()},        {DType::float64, nb::dtype<double>()},
    {DType::uint8, nb::dtype<std::uint8_t>()},   {DType::int8, nb::dtype<std::int8_t>()},
    {DType::uint16, nb::dtype<std::uint16_t>()}, {DType::int16, nb::dtype<std::int16_t>()},
    {DType::int32, nb::dtype<std::int32_t>()},   {DType::int64, nb::dtype<std::int64_t>()},
    {DType::uint32, nb::dtype<std::uint32_t>()}, {DType::uint64, nb::dtype<std::uint64_t>()},
    {DType::boolean, nb::dtype<bool>()},         {DType::float16, {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1}},
};

TensorType type_of(const Array& array) {
  Shape shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.dims.push_back(static_cast<std::int64_t>(array.shape(i)));
  for (const ElementType& type : element_types)
    if (type.numpy == array.dtype()) return {type.ours, shape};
  fail(ExitCode::data, "an array has an element type of ", static_cast<int>(array.dtype().bits), " bits that is not known: expected ",
       "float32, float64, whole numbers or bool");
}

}  // namespace

Role role_of(const std::string& role) {
  return role == "label" ? Role::label : role == "weight" ? Role::weight : Role::input;
}

void ArrayDataset::add(const std::string& name, Role role, Array array) {
  const TensorType type = type_of(array);
  if (type.shape.rank() == 0) fail(ExitCode::data, "'", name, "' is a scalar, expected samples along axis 0");
  if (!fields_.empty() && type.shape[0] != size_)
    fail(ExitCode::data, "'", name, "' has ", type.shape[0], " samples, '", fields_[0].name, "' has ", size_, ": expected as many");
  size_ = type.shape[0];
  Field field = role == Role::input ? array_field(name, type.dtype, type.shape) : Field{.name = name, .role = role};
  field.sample = {type.dtype, Shape(std::vector<std::int64_t>(type.shape.begin() + 1, type.shape.end()))};
  bytes_.push_back(static_cast<std::size_t>(field.sample.shape.elements()) * size_of(type.dtype));
  fields_.push_back(std::move(field));
  arrays_.push_back(std::move(array));
}

void ArrayDataset::add_constant(const std::string& input, const Array& array) {
  constants_[input] = tensor_of(array);
}

void ArrayDataset::read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const {
  const auto* const from = static_cast<const std::byte*>(arrays_[field].data());
  for (const std::int64_t sample : samples) {
    std::memcpy(to, from + static_cast<std::size_t>(sample) * bytes_[field], bytes_[field]);
    to += bytes_[field];
  }
}

std::unique_ptr<Dataset> dataset_of(const Batches& batches) {
  ArrayDataset first;
  for (const auto& [name, role, array] : batches.first) first.add(name, role_of(role), array);
  std::vector<Field> fields(first.fields().begin(), first.fields().end());
  auto next = [next = batches.next](std::int64_t count, std::span<std::byte* const> to) {
    const nb::gil_scoped_acquire lock;
    const auto arrays = nb::cast<std::vector<Array>>(next(count));
    for (std::size_t f = 0; f < to.size(); ++f) std::memcpy(to[f], arrays[f].data(), arrays[f].nbytes());
  };
  return std::make_unique<IterableDataset>("the data", batches.size, std::move(fields), std::move(next));
}

Tensor tensor_of(const Array& array) {
  Tensor tensor(type_of(array));
  if (array.nbytes() > 0) std::memcpy(tensor.write().data(), array.data(), array.nbytes());
  return tensor;
}

Tensor view_of(const Array& array) { return Tensor::view(type_of(array), static_cast<const std::byte*>(array.data())); }

nb::object array_of(Tensor tensor) {
  auto* const held = new Tensor(std::move(tensor));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::vector<std::size_t> shape;
  for (const std::int64_t size : held->shape()) shape.push_back(static_cast<std::size_t>(size));
  for (const ElementType& type : element_types)
    if (type.ours == held->dtype())
      return nb::cast(nb::ndarray<nb::numpy>(held->write().data(), shape.size(), shape.data(), owner, nullptr, type.numpy));
  fail(ExitCode::data, "NumPy has no element type ", held->dtype());
}

}  // namespace tandem::python
