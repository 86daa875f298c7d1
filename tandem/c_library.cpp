// The C API: errors, texts, and what there is.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "tandem/c_handles.h"
#include "tandem/tandem.h"

namespace tandem::c {
namespace {

thread_local std::string last_error;
thread_local int last_code = 0;

int told(int code, const char* message) noexcept {
  last_code = code;
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return code;
}

}  // namespace

int failed() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return told(static_cast<int>(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return told(TANDEM_DEVICE, "out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return told(TANDEM_IO, e.what());
  } catch (const std::exception& e) {
    return told(TANDEM_INTERNAL, e.what());
  } catch (...) {
    return told(TANDEM_INTERNAL, "an exception of no kind that is known");
  }
}

char* copy_of(std::string_view text) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

namespace {

Purpose purpose_of(const char* text) {
  static constexpr std::pair<std::string_view, Purpose> purposes[] = {
      {"train", Purpose::train}, {"evaluate", Purpose::evaluate}, {"predict", Purpose::predict}};
  const std::string_view asked = &need(text, "purpose");
  for (const auto& [word, purpose] : purposes)
    if (word == asked) return purpose;
  fail(ExitCode::usage, "purpose '", asked, "': expected train, evaluate or predict");
}

Json devices() {
  Json::Array list;
  for (const Backend* backend : backends()) {
    if (const std::string reason = backend->unusable(); !reason.empty()) {
      list.push_back(Json::Object{{"device", backend->name()}, {"reason", reason}});
      continue;
    }
    const int count = backend->name() == "cpu" ? 1 : backend->device_count();  // as many CPU devices as are asked for
    for (int i = 0; i < count; ++i) {
      const DeviceModel model = backend->model(i, 1);
      list.push_back(Json::Object{{"device", to_string(DeviceId{backend->name(), i})}, {"name", model.name}, {"memory", model.memory}});
    }
  }
  return list;
}

}  // namespace
}  // namespace tandem::c

using namespace tandem;

const char* tandem_version(void) {
  return TANDEM_VERSION;
}
int tandem_abi_version(void) {
  return TANDEM_ABI_VERSION;
}
const char* tandem_last_error(void) {
  return c::last_error.c_str();
}
int tandem_last_error_code(void) {
  return c::last_code;
}
void tandem_free(char* text) {
  std::free(text);
}

int tandem_options_json(const char* purpose, char** json) {
  return c::guarded([&] { c::give(json, describe_options(c::purpose_of(purpose)).dump()); });
}
int tandem_devices_json(char** json) {
  return c::guarded([&] { c::give(json, c::devices().dump()); });
}
