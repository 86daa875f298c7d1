// What is told of parameters that the file does not hold, or that its exporter computed something from.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/importer/exporter_notes.h"

namespace tandem::test {
namespace {

TEST(Signature, ParametersThatTheFileDoesNotHoldAreTold) {
  for (const bool missing : {true, false}) {
    Model m;
    m.input("x", "N,8").output("y");
    signed_products(m, missing ? "scale" : "", "%exp", vector_of(arbitrary(8)));
    const Graph graph = m.graph(2);
    EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(),
                          [](const std::string& s) {
                            return s.starts_with("the model's parameters 'scale' stand nowhere in the file") &&
                                   s.find("'w', what may have come of it") != s.npos;
                          }),
              missing)
        << testing::PrintToString(graph.warnings);
  }
}

TEST(Signature, WhatTheExporterNotesAsComputedFromParametersIsTold) {
  for (const char* call : {"%exp", ""}) {  // of a node that splits it nothing is said
    Model m;
    m.input("x", "N,8").output("y");
    signed_products(m, "scale", call, vector_of(arbitrary(8)));
    state_computed(m, "w", "['scale', 'val_3']");
    const Graph graph = m.graph(2);
    EXPECT_TRUE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
      return s.starts_with("the exporter computed 'w' from 'scale': what it computed is trained as it stands");
    })) << testing::PrintToString(graph.warnings);
    EXPECT_FALSE(std::any_of(graph.warnings.begin(), graph.warnings.end(), [](const std::string& s) {
      return s.starts_with("the model's parameters");
    })) << testing::PrintToString(graph.warnings);
  }
}

// A layer's matrix that the exporter turned is what PyTorch trains; not so what a call on the way computed, or the reading call itself.
TEST(Signature, AMatrixThatIsOnlyTurnedIsNotTold) {
  for (const auto& [call, note, warns] : {std::tuple("%x, %p_other", "['other']", false),
                                         {"%x, %exp", "['exp', 'other']", true},
                                         {"%x, %p_other", "['other', 'val_3']", false},
                                         {"%x, %view", "['other', 'view', 'val_3']", false},
                                         {"%x, %p_other), kwargs = {alpha: 2", "['other', 'val_3']", true}}) {
    SCOPED_TRACE(testing::Message() << call << ' ' << note);
    Model m;
    m.input("x", "N,8").output("y").output("z");
    signed_products(m, "other", "", vector_of(arbitrary(8), "v"));
    m.add(float_tensor("val_4", {8, 4}, arbitrary(32))).add(of_call(node("MatMul", {"y", "val_4"}, {"z"}), "mul.Tensor", call));
    state_computed(m, "val_4", note);
    const Graph graph = m.graph(2);
    EXPECT_EQ(std::any_of(graph.warnings.begin(), graph.warnings.end(),
                          [](const std::string& s) { return s.starts_with("the exporter computed 'val_4' from 'other'"); }),
              warns)
        << testing::PrintToString(graph.warnings);
  }
}

}  // namespace
}  // namespace tandem::test
