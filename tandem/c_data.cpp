// The C API: data sets.
#include "data/iterable.h"
#include "tandem/c_handles.h"

namespace tandem::c {
namespace {

// What callbacks are called with. It is the library's as soon as there is a `release`.
struct Context {
  explicit Context(void* c) : context(c) {}
  ~Context() {
    if (release) release(context);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* const context;
  void (*release)(void*) = nullptr;
};

class CallbackData final : public Dataset {
 public:
  CallbackData(std::string name, std::int64_t size, std::vector<Field> fields, tandem_read read, std::shared_ptr<Context> context)
      : name_(std::move(name)), size_(size), fields_(std::move(fields)), read_(read), context_(std::move(context)) {}
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    if (const int code = read_(context_->context, field, samples.data(), samples.size(), to); code != 0)
      fail(ExitCode::data, name_, ": reading '", fields_[field].name, "' has failed, the callback has returned ", code);
  }

 private:
  const std::string name_;
  const std::int64_t size_;
  const std::vector<Field> fields_;
  const tandem_read read_;
  const std::shared_ptr<Context> context_;
};

// For those who own what they are given.
class SharedData final : public Dataset {
 public:
  explicit SharedData(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
  std::string name() const override { return data_->name(); }
  std::int64_t size() const override { return data_->size(); }
  std::span<const Field> fields() const override { return data_->fields(); }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override { data_->read(field, samples, to); }
  bool iterable() const override { return data_->iterable(); }
  void draw(std::int64_t begin, std::int64_t count) const override { data_->draw(begin, count); }

 private:
  const std::shared_ptr<const Dataset> data_;
};

Role role_of(int role) {
  if (role < TANDEM_INPUT || role > TANDEM_WEIGHT) fail(ExitCode::usage, "role ", role, " is none of tandem_role");
  return static_cast<Role>(role);
}

std::vector<Field> fields_of(std::size_t count, const tandem_field* field) {
  std::vector<Field> all;
  for (std::size_t i = 0; i < count; ++i) {
    const tandem_field& one = (&need(field, "field"))[i];
    all.push_back({.name = &need(one.name, "name"), .role = role_of(one.role), .sample = type_of(one.dtype, one.rank, one.dims)});
  }
  return all;
}

// Of samples that callbacks give. `make` has the data set of its name and of their context.
template <class Make>
int from_callback(const char* name, int64_t size, bool callback, void (*release)(void*), void* context, tandem_data** out,
                  const Make& make) {
  return guarded([&] {
    tandem_data*& place = need(out, "out");
    if (!callback) fail(ExitCode::usage, "the callback that gives samples is null");
    if (size < 0) fail(ExitCode::usage, "a data set of ", size, " samples");
    const auto owned = std::make_shared<Context>(context);
    place = new tandem_data{"", make(name ? name : "callback", owned)};
    owned->release = release;  // from here on nothing fails
  });
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
  return c::from_callback(name, size, read, release, context, out, [&](const char* called, const std::shared_ptr<c::Context>& with) {
    return std::make_shared<c::CallbackData>(called, size, c::fields_of(fields, field), read, with);
  });
}

int tandem_data_from_iterator(const char* name, int64_t size, size_t fields, const tandem_field* field, tandem_next next,
                              void (*release)(void* context), void* context, tandem_data** out) {
  return c::from_callback(name, size, next, release, context, out, [&](const char* called, const std::shared_ptr<c::Context>& with) {
    auto read = [next, with, of = std::string(called)](std::int64_t count, std::span<std::byte* const> to) {
      const std::vector<void*> places(to.begin(), to.end());
      if (const int code = next(with->context, static_cast<std::size_t>(count), places.data()); code != 0)
        fail(ExitCode::data, of, ": reading the next ", count, " samples has failed, the callback has returned ", code);
    };
    return std::make_shared<IterableDataset>(called, size, c::fields_of(fields, field), std::move(read));
  });
}

void tandem_data_free(tandem_data* data) {
  delete data;
}
