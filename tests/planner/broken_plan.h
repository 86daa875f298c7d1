// How rows break a plan.
#pragma once
#include <gtest/gtest.h>

#include <functional>

#include "planner/plan/plan.h"

namespace tandem::test {

// The plan is sound as it stands, and refused with that breach once it is changed.
inline void expect_breach(Plan plan, const std::function<void(Plan&)>& change, const std::string& breach) {
  ASSERT_NO_THROW(verify(plan));
  change(plan);
  try {
    verify(plan);
    ADD_FAILURE() << "passed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::model);
    EXPECT_NE(std::string(e.what()).find(breach), std::string::npos) << e.what();
  }
}

}  // namespace tandem::test
