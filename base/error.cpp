#include "base/error.h"

#include <charconv>

#include "base/errors.h"

namespace tandem {
namespace {

std::string without_zeros(std::string message) {
  for (std::size_t at = 0; (at = message.find('\0', at)) != std::string::npos;) message.replace(at, 1, "\\x00");
  return message;
}

}  // namespace

Error::Error(ExitCode code, const std::string& message) : std::runtime_error(without_zeros(message)), code_(code) {}

std::string text_of(double v) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return std::string(buffer, end);
}

std::string text_of_parts(std::initializer_list<TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) part.append(text, part.value);
  return text;
}

void fail_with_parts(ExitCode code, std::initializer_list<TextPart> parts) {
  const std::string message = text_of_parts(parts);
  switch (code) {
    case ExitCode::usage: throw UsageError(message);
    case ExitCode::model: throw ModelError(message);
    case ExitCode::data: throw DataError(message);
    case ExitCode::device: throw DeviceError(message);
    case ExitCode::communication: throw CommunicationError(message);
    case ExitCode::io: throw IoError(message);
    case ExitCode::diverged: throw DivergedError(message);
    default: throw Error(code, message);
  }
}

}  // namespace tandem
