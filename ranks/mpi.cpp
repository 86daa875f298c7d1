#include "ranks/mpi.h"

#include "base/error.h"
#include "base/module.h"

namespace tandem {

Mpi* open_mpi(std::string_view kind, std::string& reason) {
  const auto entry = reinterpret_cast<Mpi* (*)(std::string&)>(find_in_module(concat("mpi_", kind), "tandem_mpi", reason));
  return entry ? entry(reason) : nullptr;
}

}  // namespace tandem
