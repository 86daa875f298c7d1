#include "planner/pipeline/cuts.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/id_vector.h"
#include "base/option.h"

namespace tandem {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

class Sums {
 public:
  Sums(std::span<const Piece> pieces, double Piece::* member) : sums_{0} {
    for (const Piece& piece : pieces) sums_.push_back(sums_.back() + piece.*member);
  }
  double of(int begin, int end) const { return sums_[at(end)] - sums_[at(begin)]; }

 private:
  std::vector<double> sums_;
};

class Cuts {
 public:
  Cuts(std::span<const Piece> pieces, std::span<const PartRoom> parts)
      : pieces_(pieces),
        parts_(parts),
        time_(pieces, &Piece::time),
        activations_(pieces, &Piece::activations),
        parameters_(pieces, &Piece::parameters) {}

  double time(int part, int begin, int end) const {
    const double sends = part + 1 < std::ssize(parts_) ? pieces_[at(end - 1)].sends : 0;
    return time_.of(begin, end) / parts_[at(part)].speed + sends;
  }
  // Of the part's memory, the share that it needs.
  double fill(int part, int begin, int end) const {
    const PartRoom& room = parts_[at(part)];
    return room.memory > 0 ? (parameters_.of(begin, end) + room.held * activations_.of(begin, end)) / room.memory : 0;
  }

  struct Best {
    double worst = infinite;  // part's cost
    std::vector<int> begins;
  };
  // `cost` of a part grows with the pieces before those that it has.
  template <class Cost>
  Best best(const Cost& cost) const {
    const int n = static_cast<int>(pieces_.size()), count = static_cast<int>(parts_.size());
    std::vector<std::vector<double>> worst(at(count), std::vector<double>(at(n + 1), infinite));
    std::vector<std::vector<int>> begin(at(count), std::vector<int>(at(n + 1)));
    for (int end = 1; end <= n; ++end) worst[0][at(end)] = cost(0, 0, end);
    for (int part = 1; part < count; ++part)
      for (int end = part + 1 == count ? n : part + 1; end <= n; ++end) {
        double& least = worst[at(part)][at(end)];
        for (int b = end - 1; b >= part; --b) {
          const double own = cost(part, b, end);
          if (own >= least) break;
          const double all = std::max(own, worst[at(part - 1)][at(b)]);
          if (all >= least) continue;
          least = all;
          begin[at(part)][at(end)] = b;
        }
      }
    Best best{.worst = worst.back().back(), .begins = std::vector<int>(at(count))};
    for (int part = count - 1, end = n; part > 0; --part) end = best.begins[at(part)] = begin[at(part)][at(end)];
    return best;
  }

 private:
  std::span<const Piece> pieces_;
  std::span<const PartRoom> parts_;
  Sums time_, activations_, parameters_;
};

}  // namespace

std::vector<int> best_cuts(std::span<const Piece> pieces, std::span<const PartRoom> parts) {
  if (pieces.size() < parts.size())
    fail(ExitCode::usage, option("parallel"), ": ", parts.size(), " parts of a pipeline, and the model can be cut into ", pieces.size(),
         " at most");
  const Cuts cuts(pieces, parts);
  const auto time_if_it_fits = [&](int part, int begin, int end) {
    return cuts.fill(part, begin, end) > 1 ? infinite : cuts.time(part, begin, end);
  };
  if (const auto best = cuts.best(time_if_it_fits); best.worst < infinite) return best.begins;
  return cuts.best([&](int part, int begin, int end) { return cuts.fill(part, begin, end); }).begins;
}

}  // namespace tandem
