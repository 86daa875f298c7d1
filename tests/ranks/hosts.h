// Hosts on one machine: network namespaces of this process, joined by networks whose switch is a thread of it, with a rate and
// a delay. They go with this process, however it ends, as nothing has a name outside of it. Needs root.
#pragma once
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tandem::test {

// Of each host's cable, both ways: bits per second (0: no limit), and seconds from one host to another.
struct Cable {
  double rate = 0, delay = 0;
};

class Hosts {
 public:
  static std::string missing();  // why there can be none on this machine; empty: there can
  explicit Hosts(int count, Cable cable = {}, int networks = 1);
  ~Hosts();
  Hosts(const Hosts&) = delete;

  int count() const { return count_; }
  static std::string ipv4(int host, int network = 0);  // 10.77.0.1
  static std::string ipv6(int host, int network = 0);  // fd77:0::1
  static std::string link_local(int host);             // fe80::77:1%net1: each host calls its interface otherwise

  // Calls it in a thread that is on this host: what it opens and starts is, too. `names`, in place of /etc/hosts there.
  void on(int host, const std::function<void()>& call, const std::filesystem::path& names = {}) const;

  // From now on nothing goes between the two, or to and from the host, and nobody is told.
  void cut(int host, int other) {
    cuts_[static_cast<std::size_t>(host)][static_cast<std::size_t>(other)] =
        cuts_[static_cast<std::size_t>(other)][static_cast<std::size_t>(host)] = true;
  }
  void cut(int host);

 private:
  static constexpr int most = 16;
  struct Port {
    int network, device;                // a descriptor: frames that its host sends are read from it
    double up_free = 0, down_free = 0;  // when the cable is free again
  };
  void plug(int host, int network);
  void forward(const std::stop_token& ended);

  const int count_;
  const Cable cable_;
  std::vector<int> spaces_;  // descriptors of the namespaces, by host
  std::vector<Port> ports_;  // network after network, by host
  std::array<std::array<std::atomic<bool>, most>, most> cuts_{};
  std::jthread switch_;
};

}  // namespace tandem::test
