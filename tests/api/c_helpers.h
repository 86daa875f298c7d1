// The C API in tests: what it gives is owned, and what it returns is expected.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tandem/c.h"

namespace tandem::test {

inline std::string taken(char* text) {
  const std::string copy = text ? text : "";
  tandem_free(text);
  return copy;
}

struct Deleter {
  void operator()(tandem_model* m) const { tandem_model_free(m); }
  void operator()(tandem_data* d) const { tandem_data_free(d); }
  void operator()(tandem_tensor* t) const { tandem_tensor_free(t); }
  void operator()(tandem_autograd* a) const { tandem_autograd_free(a); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

#define OK(call) ASSERT_EQ((call), 0) << tandem_last_error()
#define FAILS(call, code, message)                                                                       \
  do {                                                                                                   \
    EXPECT_EQ((call), code);                                                                             \
    EXPECT_NE(std::string(tandem_last_error()).find(message), std::string::npos) << tandem_last_error(); \
    EXPECT_EQ(tandem_last_error_code(), code);                                                           \
  } while (false)

}  // namespace tandem::test
