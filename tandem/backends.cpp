#include <string>
#include <vector>

#include "kernels/module.h"
#include "tandem/tandem.h"

namespace tandem {

Backends backends() {
  static const std::vector<const Backend*> all = [] {
    std::vector<const Backend*> list = {&cpu_backend()};
    std::string reason;
    if (const Backend* const cuda = open_module("cuda", reason)) list.push_back(cuda);
    return list;
  }();
  return all;
}

}  // namespace tandem
