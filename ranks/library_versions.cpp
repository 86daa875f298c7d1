#include "ranks/library_versions.h"

#include "base/error.h"
#include "base/module.h"

namespace tandem {

std::vector<LibraryVersion> rank_libraries() {
  std::vector<LibraryVersion> list = {sodium_library()};
  for (const char* const kind : {"openmpi", "mpich"}) {
    std::string reason;
    const auto library = reinterpret_cast<std::string (*)()>(find_in_module(concat("mpi_", kind), "tandem_mpi_library", reason));
    list.push_back({concat("MPI module ", kind), library ? library() : concat("not usable: ", reason)});
  }
  return list;
}

}  // namespace tandem
