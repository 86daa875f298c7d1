// The C API: data sets.
#include "tandem/c_handles.h"

namespace tandem::c {
namespace {

class CallbackData final : public Dataset {
 public:
  CallbackData(std::string name, std::int64_t size, std::vector<Field> fields, tandem_read read)
      : name_(std::move(name)), size_(size), fields_(std::move(fields)), read_(read) {}
  ~CallbackData() override {
    if (release_) release_(context_);
  }
  void own(void (*release)(void*), void* context) {
    release_ = release;
    context_ = context;
  }
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    if (const int code = read_(context_, field, samples.data(), samples.size(), to); code != 0)
      fail(ExitCode::data, name_, ": reading '", fields_[field].name, "' has failed, the callback has returned ", code);
  }

 private:
  const std::string name_;
  const std::int64_t size_;
  const std::vector<Field> fields_;
  const tandem_read read_;
  void (*release_)(void*) = nullptr;
  void* context_ = nullptr;
};

// For those who own what they are given.
class SharedData final : public Dataset {
 public:
  explicit SharedData(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
  std::string name() const override { return data_->name(); }
  std::int64_t size() const override { return data_->size(); }
  std::span<const Field> fields() const override { return data_->fields(); }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override { data_->read(field, samples, to); }

 private:
  const std::shared_ptr<const Dataset> data_;
};

Role role_of(int role) {
  if (role < TANDEM_INPUT || role > TANDEM_WEIGHT) fail(ExitCode::usage, "role ", role, " is none of tandem_role");
  return static_cast<Role>(role);
}

}  // namespace

std::unique_ptr<Dataset> shared(std::shared_ptr<const Dataset> data) {
  return std::make_unique<SharedData>(std::move(data));
}

}  // namespace tandem::c

using namespace tandem;

int tandem_data_open(const char* spec, tandem_data** out) {
  return c::guarded([&] { c::need(out, "out") = new tandem_data{&c::need(spec, "spec"), nullptr}; });
}

int tandem_data_from_arrays(size_t count, const char* const* names, const int* roles, const tandem_tensor* const* tensors,
                            tandem_data** out) {
  return c::guarded([&] {
    tandem_data*& place = c::need(out, "out");
    auto data = std::make_shared<MemoryDataset>("arrays");
    if (count == 0) fail(ExitCode::data, data->name(), ": there are none");
    c::need(names, "names"), c::need(roles, "roles"), c::need(tensors, "tensors");
    for (std::size_t i = 0; i < count; ++i)
      data->add({.name = &c::need(names[i], "names"), .role = c::role_of(roles[i])}, c::need(tensors[i], "tensors").values);
    place = new tandem_data{"", std::move(data)};
  });
}

int tandem_data_from_callback(const char* name, int64_t size, size_t fields, const tandem_field* field, tandem_read read,
                              void (*release)(void* context), void* context, tandem_data** out) {
  return c::guarded([&] {
    tandem_data*& place = c::need(out, "out");
    if (!read) fail(ExitCode::usage, "the argument read is null");
    if (size < 0) fail(ExitCode::usage, "a data set of ", size, " samples");
    std::vector<Field> all;
    for (std::size_t i = 0; i < fields; ++i) {
      const tandem_field& one = (&c::need(field, "field"))[i];
      all.push_back(
          {.name = &c::need(one.name, "name"), .role = c::role_of(one.role), .sample = c::type_of(one.dtype, one.rank, one.dims)});
    }
    auto data = std::make_shared<c::CallbackData>(name ? name : "callback", size, std::move(all), read);
    auto handle = std::make_unique<tandem_data>(tandem_data{"", data});
    data->own(release, context);  // from here on nothing fails
    place = handle.release();
  });
}

void tandem_data_free(tandem_data* data) {
  delete data;
}
