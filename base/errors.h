// Errors by class, for who catches some kinds alone: what fail() throws is of the class of its code.
#pragma once
#include "base/error.h"

namespace tandem {

template <ExitCode of>
struct ErrorOf : Error {
  explicit ErrorOf(const std::string& message) : Error(of, message) {}
};
using UsageError = ErrorOf<ExitCode::usage>;
using ModelError = ErrorOf<ExitCode::model>;
using DataError = ErrorOf<ExitCode::data>;
using DeviceError = ErrorOf<ExitCode::device>;  // or memory
using CommunicationError = ErrorOf<ExitCode::communication>;
using IoError = ErrorOf<ExitCode::io>;
using DivergedError = ErrorOf<ExitCode::diverged>;

}  // namespace tandem
