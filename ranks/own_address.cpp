#include "ranks/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <memory>
#include <string_view>

#include "base/error.h"

namespace tandem {
namespace {

bool is_for_others(const ifaddrs& i) {
  constexpr std::string_view bridges[] = {"docker", "virbr", "br-", "cni", "veth"};
  if (!i.ifa_addr || !(i.ifa_flags & IFF_UP) || !(i.ifa_flags & IFF_RUNNING) || (i.ifa_flags & IFF_LOOPBACK)) return false;
  for (const std::string_view b : bridges)
    if (std::string_view(i.ifa_name).starts_with(b)) return false;
  return true;
}

}  // namespace

std::string own_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail(ExitCode::communication, "the network interfaces of this machine cannot be listed");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(list, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* i = list; i; i = i->ifa_next) {
      if (!is_for_others(*i) || i->ifa_addr->sa_family != family) continue;
      char host[NI_MAXHOST] = "";
      const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (::getnameinfo(i->ifa_addr, bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0) return host;
    }
  fail(ExitCode::communication, "this machine has no network interface that others reach");
}

}  // namespace tandem
