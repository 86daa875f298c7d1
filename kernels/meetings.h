// Where the members of each exchange that are of one process wait for each other.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "kernels/collective.h"
#include "kernels/meeting.h"

namespace tandem {

class Meetings {
 public:
  // Of ranks `first` to `first + count - 1`.
  Meetings(int first, int count, double timeout_seconds) : first_(first), count_(count), timeout_(timeout_seconds) {}
  // Which members of an exchange are of this process, in the members' order: they are numbered so in its meeting.
  std::vector<std::size_t> here(const ExchangeSpec& exchange) const;
  // That of the exchange's channel; made once, before steps run.
  Meeting& of(const ExchangeSpec& exchange);
  // As CollectiveGroup::meet(), of an exchange whose meeting was made.
  void meet(int channel, int rank);
  void abort(const std::string& reason);

 private:
  struct Place {
    std::vector<int> ranks;
    std::unique_ptr<Meeting> meeting;
  };
  const int first_, count_;
  const double timeout_;
  std::mutex lock_;  // not taken by who meets
  std::map<int, Place> places_;
  bool aborted_ = false;
  std::string reason_;
};

}  // namespace tandem
