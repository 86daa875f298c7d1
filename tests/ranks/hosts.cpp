// Ethernet in user space: TAP devices in network namespaces, and a switch that knows its hosts by the last byte of their addresses.
#include "tests/ranks/hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>

#include "base/error.h"

namespace tandem::test {
namespace {

constexpr int largest_packet = 9000, ethernet_header = 14;
constexpr double ahead = 2e-3;  // seconds that a cable takes frames in advance: what waits longer waits in its host

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Failed : std::runtime_error {
  explicit Failed(const std::string& what) : std::runtime_error(concat(what, ": ", std::strerror(errno))) {}
};
int need(int result, const std::string& what) {
  if (result < 0) throw Failed(what);
  return result;
}

std::string interface(int host, int network) {
  return concat(network == 0 ? "net" : "other", host + 1);
}

// Asks the system to set something of an interface of this thread's namespace.
struct Setting {
  explicit Setting(int family) : socket(need(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), "a socket")) {}
  ~Setting() { ::close(socket); }
  static ifreq of(const std::string& name) {
    ifreq r{};
    name.copy(r.ifr_name, IFNAMSIZ - 1);
    return r;
  }
  void set(unsigned long what, void* request, const std::string& text) const { need(::ioctl(socket, what, request), text); }
  int socket;
};

void set_ipv4(const Setting& s, unsigned long what, const std::string& name, const std::string& address) {
  ifreq r = Setting::of(name);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  ::inet_pton(AF_INET, address.c_str(), &a.sin_addr);
  std::memcpy(&r.ifr_addr, &a, sizeof a);
  s.set(what, &r, address);
}

void turn_on(const Setting& s, const std::string& name) {
  ifreq r = Setting::of(name);
  r.ifr_flags = IFF_UP | IFF_RUNNING;
  s.set(SIOCSIFFLAGS, &r, concat("turning on ", name));
}

// A machine may be without IPv6: then no host has it.
void add_ipv6(const std::string& name, const std::vector<std::string>& addresses) {
  const int probe = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return;
  ::close(probe);
  const Setting s(AF_INET6);
  ifreq index = Setting::of(name);
  s.set(SIOCGIFINDEX, &index, name);
  for (const std::string& address : addresses) {
    in6_ifreq r{};
    ::inet_pton(AF_INET6, address.c_str(), &r.ifr6_addr);
    r.ifr6_prefixlen = 64;
    r.ifr6_ifindex = index.ifr_ifindex;
    s.set(SIOCSIFADDR, &r, address);
  }
  // The system takes them in use a moment later.
  const auto tentative = [] {
    std::ifstream list("/proc/thread-self/net/if_inet6");
    bool any = false;
    for (std::string address, index, prefix, scope, flags, device; list >> address >> index >> prefix >> scope >> flags >> device;)
      any = any || (std::stoi(flags, nullptr, 16) & IFA_F_TENTATIVE) != 0;
    return any;
  };
  for (int i = 0; tentative() && i < 1000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// Calls it in a thread of its own, which may change its namespaces, and passes on what it throws.
void in_a_thread(const std::function<void()>& call) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      call();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

std::string without_zone(const std::string& address) {
  return address.substr(0, address.find('%'));
}

}  // namespace

std::string Hosts::ipv4(int host, int network) {
  return concat("10.", 77 + network, ".0.", host + 1);
}
std::string Hosts::ipv6(int host, int network) {
  return concat("fd", 77 + network, "::", host + 1);
}
std::string Hosts::link_local(int host) {
  return concat("fe80::77:", host + 1, '%', interface(host, 0));
}

std::string Hosts::missing() {
  try {
    const Hosts one(1);
    return "";
  } catch (const std::exception& e) {
    return concat("no network namespaces can be made here (", e.what(), "): needs root, and a kernel with namespaces and TAP devices");
  }
}

Hosts::Hosts(int count, Cable cable, int networks) : count_(count), cable_(cable) {
  ports_.reserve(static_cast<std::size_t>(count * networks));
  for (int host = 0; host < count; ++host)
    in_a_thread([&] {
      need(::unshare(CLONE_NEWNET), "a network namespace");
      spaces_.push_back(need(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "the thread's network namespace"));
      turn_on(Setting(AF_INET), "lo");
    });
  for (int network = 0; network < networks; ++network)
    for (int host = 0; host < count; ++host) on(host, [&] { plug(host, network); });
  switch_ = std::jthread([this](const std::stop_token& ended) { forward(ended); });
}

Hosts::~Hosts() {
  switch_ = {};
  for (const Port& p : ports_) ::close(p.device);
  for (const int space : spaces_) ::close(space);
}

void Hosts::plug(int host, int network) {
  const std::string name = interface(host, network);
  const int device = need(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ports_.push_back({network, device});
  ifreq r = Setting::of(name);
  r.ifr_flags = IFF_TAP | IFF_NO_PI;
  need(::ioctl(device, TUNSETIFF, &r), "a TAP device");
  const Setting s(AF_INET);
  r = Setting::of(name);
  r.ifr_hwaddr.sa_family = 1;  // Ethernet
  r.ifr_hwaddr.sa_data[0] = 2;
  r.ifr_hwaddr.sa_data[5] = static_cast<char>(host + 1);
  s.set(SIOCSIFHWADDR, &r, "an Ethernet address");
  r = Setting::of(name);
  r.ifr_mtu = largest_packet;
  s.set(SIOCSIFMTU, &r, "the largest packet");
  set_ipv4(s, SIOCSIFADDR, name, ipv4(host, network));
  set_ipv4(s, SIOCSIFNETMASK, name, "255.255.255.0");
  std::ofstream(concat("/proc/sys/net/ipv6/conf/", name, "/accept_dad")) << 0;  // no other host has its addresses
  turn_on(s, name);
  add_ipv6(name, network == 0 ? std::vector{ipv6(host, network), without_zone(link_local(host))} : std::vector{ipv6(host, network)});
}

void Hosts::on(int host, const std::function<void()>& call, const std::filesystem::path& names) const {
  in_a_thread([&] {
    need(::setns(spaces_[static_cast<std::size_t>(host)], CLONE_NEWNET), "entering a network namespace");
    if (!names.empty()) {
      need(::unshare(CLONE_NEWNS), "a mount namespace");
      need(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "a mount namespace of its own");
      need(::mount(names.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr), "/etc/hosts");
    }
    call();
  });
}

void Hosts::cut(int host) {
  for (int other = 0; other < count_; ++other)
    if (other != host) cut(host, other);
}

void Hosts::forward(const std::stop_token& ended) {
  struct Frame {
    double due;
    std::vector<char> bytes;
  };
  constexpr double longest_wait = 0.02;
  std::vector<std::deque<Frame>> arriving(ports_.size());
  std::vector<pollfd> devices(ports_.size());
  std::vector<char> frame(largest_packet + ethernet_header);
  const auto send = [&](std::size_t from, std::size_t to, std::size_t bytes) {
    const auto a = from % static_cast<std::size_t>(count_), b = to % static_cast<std::size_t>(count_);
    if (from == to || ports_[from].network != ports_[to].network || cuts_[a][b]) return;
    const double seconds = cable_.rate > 0 ? static_cast<double>(bytes) * 8 / cable_.rate : 0;
    double& free = ports_[to].down_free;
    free = std::max(free, ports_[from].up_free - seconds) + seconds;
    arriving[to].push_back({free + cable_.delay, {frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)}});
  };
  while (!ended.stop_requested()) {
    const double t = now();
    double next = t + longest_wait;
    for (std::size_t to = 0; to < ports_.size(); ++to) {
      auto& queue = arriving[to];
      for (; !queue.empty() && queue.front().due <= t; queue.pop_front())
        if (::write(ports_[to].device, queue.front().bytes.data(), queue.front().bytes.size()) < 0)
          continue;  // a host that takes none loses it
      if (!queue.empty()) next = std::min(next, queue.front().due);
    }
    bool any = false;
    for (std::size_t from = 0; from < ports_.size(); ++from) {
      Port& port = ports_[from];
      constexpr int turns = 16;  // then the others
      for (int i = 0; i < turns && port.up_free <= t + ahead; ++i) {
        const ssize_t got = ::read(port.device, frame.data(), frame.size());
        if (got < ethernet_header) break;
        any = true;
        const auto bytes = static_cast<std::size_t>(got);
        port.up_free = std::max(port.up_free, t) + (cable_.rate > 0 ? static_cast<double>(bytes) * 8 / cable_.rate : 0);
        const bool for_all = (frame[0] & 1) != 0;
        for (std::size_t to = 0; to < ports_.size(); ++to)
          if (for_all || static_cast<std::size_t>(frame[5]) == to % static_cast<std::size_t>(count_) + 1) send(from, to, bytes);
      }
      const bool waits = port.up_free > t + ahead;
      if (waits) next = std::min(next, port.up_free - ahead);
      devices[from] = {port.device, static_cast<short>(waits ? 0 : POLLIN), 0};
    }
    if (any) continue;
    const double seconds = std::max(0.0, next - now());
    const timespec wait{0, static_cast<long>(seconds * 1e9)};  // less than one
    ::ppoll(devices.data(), devices.size(), &wait, nullptr);
  }
}

}  // namespace tandem::test
