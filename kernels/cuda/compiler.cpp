// Opens NVRTC, compiles a source for a device, and keeps what came out in memory and on disk.
#include "kernels/cuda/compiler.h"

#include <dlfcn.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/cuda/cache.h"

namespace tandem::cuda {

struct Compiler::Library {
  void* handle = nullptr;
  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcCreateProgram) create = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy = nullptr;
  decltype(&::nvrtcCompileProgram) compile = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;

  ~Library() {
    if (handle) dlclose(handle);
  }
  template <class F>
  bool find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    return function != nullptr;
  }
};

Compiler::Compiler() : library_(std::make_unique<Library>()) {
  Library& l = *library_;
  const std::string name = concat("libnvrtc.so.", CUDART_VERSION / 1000);
  l.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!l.handle) {
    unavailable_ = dlerror();
    return;
  }
  const bool whole = l.find(l.version, "nvrtcVersion") && l.find(l.create, "nvrtcCreateProgram") &&
                     l.find(l.destroy, "nvrtcDestroyProgram") && l.find(l.compile, "nvrtcCompileProgram") &&
                     l.find(l.log_size, "nvrtcGetProgramLogSize") && l.find(l.log, "nvrtcGetProgramLog") &&
                     l.find(l.cubin_size, "nvrtcGetCUBINSize") && l.find(l.cubin, "nvrtcGetCUBIN");
  if (!whole) unavailable_ = concat(name, " lacks functions that are needed");
}
Compiler::~Compiler() = default;

std::string Compiler::version() const {
  int major = 0, minor = 0;
  if (!available()) return "missing";
  library_->version(&major, &minor);
  return concat(major, '.', minor);
}

std::vector<char> Compiler::compile(const std::string& source, const std::string& architecture) const {
  if (!available()) fail(ExitCode::device, "NVRTC: ", unavailable_);
  const Library& l = *library_;
  // No contraction: a fused program gives bitwise what its instructions give one by one.
  const std::string arch = concat("--gpu-architecture=", architecture);
  const std::vector<const char*> options{arch.c_str(), "--std=c++17", "--fmad=false"};
  std::string key = concat(version(), '\n', source);
  for (const char* o : options) key += concat('\n', o);
  const std::string name = concat("kernel-", hash_of(key), ".cubin");
  if (const auto kept = read_kept(name)) return {kept->begin(), kept->end()};

  nvrtcProgram program = nullptr;
  if (l.create(&program, source.c_str(), "tandem.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
    fail(ExitCode::device, "NVRTC: cannot make a program");
  struct Destroy {
    const Library& l;
    nvrtcProgram& program;
    ~Destroy() { l.destroy(&program); }
  } destroy{l, program};
  if (l.compile(program, static_cast<int>(options.size()), options.data()) != NVRTC_SUCCESS) {
    std::size_t size = 0;
    l.log_size(program, &size);
    std::string log(size, '\0');
    l.log(program, log.data());
    fail(ExitCode::device, "NVRTC: ", log);
  }
  std::size_t size = 0;
  l.cubin_size(program, &size);
  std::vector<char> code(size);
  l.cubin(program, code.data());
  keep(name, {code.begin(), code.end()});
  return code;
}

}  // namespace tandem::cuda
