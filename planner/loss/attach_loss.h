// The losses of a training graph.
#pragma once
#include <span>

#include "graph/graph.h"
#include "planner/loss/labels.h"

namespace tandem {

// What a mean is divided by is at least this: a batch whose labels all weigh 0 may still have a loss, by smoothing. Its share of the step's
// mean is as if it weighed so much.
inline constexpr double least_loss_weight = 1e-12;

// Losses on top of a graph whose outputs are what logits_of() names, each summed over the samples by their weights and divided
// by the weights' sum over the whole batch (without weights by options.batch), and the sum of them by their shares, which
// becomes the first output. With micro-batches each is times its element of the input tandem.shares; distillation's is
// the last. What a step tells besides become metrics: "correct", the count of correct predictions of the first loss that has classes,
// where asked for; "counted", of how many, where some are ignored; "loss/OUTPUT" of several losses.
// `samples`: of this graph.
// With distillation the scores of student and teacher are the last two outputs; the classes are the first loss's, or the last axis.
void attach_loss(Graph& graph, std::span<const Labels> losses, std::int64_t samples, const CompileOptions& options, bool accuracy);

}  // namespace tandem
