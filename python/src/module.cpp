// The extension module under the package tandem_onnx, whose Python files are what users call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "options/options.h"
#include "python/src/autograd.h"
#include "python/src/model.h"

namespace tandem::python {
namespace {

// The package's exception classes, by exit code.
void raise(int code, const char* message) {
  const nb::object type = nb::module_::import_("tandem_onnx._errors").attr("by_code")(code);
  PyErr_SetString(type.ptr(), message);
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    raise(static_cast<int>(e.code()), e.what());
  }
}

}  // namespace
}  // namespace tandem::python

NB_MODULE(_tandem, module) {
  using namespace tandem::python;
  nb::register_exception_translator(translate);
  module.attr("version") = TANDEM_VERSION;
  module.def("describe_options", [] { return tandem::describe_options().dump(); });
  module.def("check_options", [](const std::string& json) { tandem::Options::parse(json); });
  bind_model(module);
  bind_autograd(module);
}
