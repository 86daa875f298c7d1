// Where a test's kernels run: our own ones on the host's emulation, or, on a GPU where there is one, all that the backend
// offers. The rows of a test are the same in both places (scripts/gpu-check runs those whose suite's name begins with Gpu).
#pragma once
#include "tests/cuda/emulated.h"

namespace tandem::cuda {

enum class Where { host, gpu };
void PrintTo(Where where, std::ostream* out);

struct Ran {
  std::string kernel;
  std::vector<Held> outputs;
};

class Place {
 public:
  explicit Place(Where where);
  const std::string& missing() const { return missing_; }  // why nothing runs there; empty where it does
  // What each kernel that is offered makes of the inputs. The test fails where there is none.
  std::vector<Ran> run_all(const Job& job, const std::vector<Held>& inputs);
  std::vector<Held> run(const Job& job, const std::vector<Held>& inputs) { return run_all(job, inputs).at(0).outputs; }

 private:
  DescribeFunction describe_;
  std::unique_ptr<Device> device_;  // null: the host
  std::string missing_;
};

// Tests with a row and a place; skipped where there is no GPU to be the place.
template <class Row>
class InPlaces : public testing::TestWithParam<std::tuple<Where, Row>> {
 protected:
  void SetUp() override {
    if (!place.missing().empty()) GTEST_SKIP() << place.missing();
  }
  const Row& row() const { return std::get<1>(this->GetParam()); }
  std::vector<Ran> own(const Job& job, const std::vector<Held>& inputs) { return place.run_all(job, inputs); }
  std::vector<Held> first(const Job& job, const std::vector<Held>& inputs) { return place.run(job, inputs); }

  Place place{std::get<0>(this->GetParam())};
};
inline std::vector<Held> on_cpu(const Job& job, const std::vector<Held>& inputs) { return run(describe_native_cpu, job, inputs); }

}  // namespace tandem::cuda
