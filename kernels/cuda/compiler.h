// NVRTC, found at run time: compiles generated kernels once and keeps them on disk (cache.h) by hash of source, options and
// version. Where it is missing, callers use what was compiled beforehand.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::cuda {

class Compiler {
 public:
  Compiler();
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  bool available() const { return unavailable_.empty(); }
  const std::string& unavailable() const { return unavailable_; }  // why not
  std::string version() const;                                     // "13.0", or "missing"
  // Machine code for an architecture such as "sm_90". Fails (device) with the compiler's log.
  std::vector<char> compile(const std::string& source, const std::string& architecture) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::string unavailable_;
};

}  // namespace tandem::cuda
