// By which address other machines find this one.
#pragma once
#include <string>

namespace tandem {

// In numbers: of the first network interface that is up and is neither the loopback nor a bridge of containers, IPv4 before IPv6.
// Fails (communication) where there is none.
std::string own_address();

}  // namespace tandem
