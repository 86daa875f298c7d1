// The passes: each takes a graph and leaves an equivalent one. They keep nodes in topological order.
#pragma once
#include <span>
#include <string>

#include "graph/operator.h"
#include "planner/options.h"
#include "planner/passes/fusing.h"
#include "planner/passes/labels.h"
#include "planner/plan/plan.h"

namespace tandem {

// The model with what --freeze names no longer trainable. A BatchNormalization whose scale and bias are frozen, or whose
// statistics are, gets the attribute `frozen`: it normalizes with its running statistics, which stay as they are; but not
// where --unfreeze names those. Fails (usage) where a pattern names nothing.
Graph freeze(const Graph& model, const CompileOptions& options, std::vector<std::string>& warnings);
// A pattern that names nothing is a slip of the pen: what it was to freeze would be trained. Fails (usage).
void check_patterns(const Graph& model, const CompileOptions& options);
bool is_frozen(const std::string& parameter, const CompileOptions& options);

// Inputs that are given as bytes become these, and a LookUp what the model reads. First of all.
Graph give_bytes(const Graph& model, const CompileOptions& options);

// Composites of other domains than ONNX's become ONNX's, so that what looks for patterns sees one language. Before all that does.
Graph expand_dialects(const Graph& graph, bool training);

// Activations that are written out (Gelu, Swish, HardSwish) become the operators that they are. Before expand.
Graph match_activations(const Graph& graph);

// LayerNormalization, RMSNormalization and what exporters write for them, with the residual's sum before it, become
// RowNormalization where that is offered. Before expand.
Graph match_normalization(const Graph& graph, const Fuses& fuses);
// InstanceNormalization, GroupNormalization and what exporters write for the latter become GroupNormalizationTraining where that is
// offered. Before expand.
Graph match_group_normalization(const Graph& graph, const Fuses& fuses);

// Rewrites composite operators into the operators kernels know, until none is left.
Graph expand(const Graph& graph, bool training);
// The same once views of parameters have become parameters: products with these are others. Simplifies what it has changed.
Graph expand_again(Graph graph, bool training);

// Removes nodes that nothing needs, repeats of the same computation, multiplications by one and reshapes that change
// nothing; views of parameters (Transpose, Reshape) become the parameter's own shape.
Graph simplify(const Graph& graph);

// Normalises by the statistics of the whole batch: BatchNormalizationTraining becomes its formula with two AllReduces.
Graph synchronize_batch_norm(const Graph& graph, std::int64_t samples, std::int64_t batch);

// MaxPool(Relu(x)) is Relu(MaxPool(x)), with the same gradient: Relu then works on what pooling leaves, and x need not be
// kept. BatchNormalization + Relu stay together. Before differentiation.
Graph pool_before_relu(const Graph& graph);

// Attention that a model writes out (products, scale, masks, softmax, dropout) becomes AttentionTraining where that is offered and computes
// the same. Once composites are expanded, before differentiation.
Graph match_attention(const Graph& graph, const Fuses& fuses, bool training);

// x + (y − x) and (y + x) − x, where y is computed from x and no gradient flows back from it to x, become StraightThrough(x, y), and a warning
// says so: a file cannot say that (y − x), or the last x, is detached. Once composites are expanded. After differentiation it is y, and
// StopGradient(x) is x.
Graph match_straight_through(const Graph& graph, std::vector<std::string>& warnings);
Graph drop_straight_through(const Graph& graph);

// LSTM, GRU and RNN become RecurrentTraining where that is offered and computes the same. Before they are expanded.
Graph match_recurrent(const Graph& graph, const Fuses& fuses, bool training);

// Bias and activation into the producing node, flatten + InnerProduct; BatchNormalization + Add + Relu where that is offered.
// Before differentiation.
Graph fuse_layers(const Graph& graph, const Fuses& fuses = {});

// Marks the products that are computed in 8 bits where the precision has them (attribute `fp8`, which their gradients take over), and says
// which are. After mixed_precision, before differentiation.
Graph choose_fp8(Graph graph, const CompileOptions& options, std::vector<std::string>& notes);
// What is marked becomes ProductFp8 of rounded operands, whose scales are state of the run, updated once a step. After differentiation.
// `several`: devices, which are to agree on the scales. Fails (usage) where they are placed otherwise than in a row.
Graph quantize_products(const Graph& graph, const CompileOptions& options, bool several);

// What BatchNormalizationTraining's statistics are computed from is summed by the convolution before it, where that is
// offered. After mixed_precision, before differentiation.
Graph sum_channels(const Graph& graph, const Fuses& fuses);

// BatchNormalizationTraining + Relu of what a convolution summed, where only convolutions and the gradients of their weights
// read it, and all of them are offered with that: they apply it themselves, and it is never written. After differentiation.
Graph normalize_in_convolutions(const Graph& graph, const Fuses& fuses);

// Relu's gradient into that of the convolution behind it, and the sum of two gradients into that of the normalization before a fork,
// where that is offered. After differentiation.
Graph fuse_gradients(const Graph& graph, const Fuses& fuses);

// Gelu behind a product, and Gelu's and Relu's gradients behind the product that they are of, into that product, where that is offered.
// After differentiation, in training.
Graph fuse_activations(const Graph& graph, const Fuses& fuses);

// Activations, and the operands of convolutions and products, in 16 bits where the precision has them, with a Cast wherever
// the types meet. Before differentiation: the gradient of a Cast is a Cast. Fails (model) on 16-bit parameters.
Graph mixed_precision(const Graph& graph, Precision precision);

// Nodes that compute in float32 read and write 16 bits where they are offered so, in place of Casts before and behind them. After
// differentiation.
Graph fold_casts(const Graph& graph, const Fuses& fuses);

// Parameters in the shapes that the plan which keeps them has, with views to the shapes that this graph's own fusions gave
// them. Of graphs that only read parameters.
Graph keep_parameters(const Graph& graph, const Plan& owner);

// Takes the Casts between 16-bit kernels and updates out, where updates are offered that do without, before they are appended.
// Gradients that would only be cast for their update stay as they are. What was a Cast of an updated parameter to 16 bits
// becomes a parameter (role copy), which the update has to write.
Graph narrow_updates(Graph graph, const OptimizerOptions& optimizer, const Fuses& fuses);

// Elementwise nodes into programs (Elementwise). After differentiation.
Graph fuse_elementwise(const Graph& graph);

// Losses on top of a graph whose outputs are what logits_of() names, each summed over the samples by their weights and divided
// by the weights' sum over the whole batch (without weights by options.batch), and the sum of them by their shares, which
// becomes the first output. With options.optimizer.accumulate each is times its element of the input tandem.shares; distillation's is the last. What a step tells besides become metrics: "correct", the count of correct predictions of the first
// loss that has classes, where asked for; "counted", of how many, where some are ignored; "loss/OUTPUT" of several losses.
// `samples`: of this graph.
// With distillation the scores of student and teacher are the last two outputs; the classes are the first loss's, or the last axis.
void attach_loss(Graph& graph, std::span<const Labels> losses, std::int64_t samples, const CompileOptions& options, bool accuracy);

// Appends the backward graph of a scalar; gradients[i] belongs to wanted[i], absent where the scalar does not depend on it.
std::vector<ValueId> differentiate(Graph& graph, ValueId scalar, std::span<const ValueId> wanted);

// ONNX's Gradient, which stands in a model: the first becomes the nodes that compute it. What is before it is expanded. Fails where a
// derivative is wanted that an operator has none for.
bool is_gradient(const Operator& op);
Graph differentiate_first(const Graph& graph);

// The gradients of the loss, or of the scaled loss, become outputs. Says which parameters it does not reach. Fails (model)
// where there is none that it does.
Graph add_gradients(Graph graph, const CompileOptions& options, std::vector<std::string>& warnings);

// The gradients that options.keep_gradients names become metrics, each device's part of them.
Graph keep_gradients(Graph graph, const CompileOptions& options);

// How what holds samples lies: split by them; where one device has all, it is that device's own, and so is what is made of it.
Part part_by_samples(const MeshAxis& samples);
// The placement of data parallelism: inputs lie by their samples in these sizes, all else is whole on every device.
PlacementRequest by_samples(const Graph& graph, std::span<const std::int64_t> sizes);

// Says of every value where it lives, and puts in the transfers between devices (AllReduce, ReduceScatter, AllGather,
// TakePart, Once, Send). Gradients are placed as their parameters are; running statistics move towards the mean of the devices' own
// ones, weighted by their samples; what a node cannot compute by parts is gathered before it.
// Warns of what is gathered.
Graph place(Graph graph, const PlacementRequest& request, std::vector<std::string>& warnings);
// Takes from nodes that draw random numbers the operand `samples`, by which place knew how they are split, and which no kernel reads.
Graph forget_samples(Graph graph);
// The same as place of nodes that were added later. Fails where one of them needs a transfer.
void place_rest(Graph& graph);

// The program of one device: of each value its part, of each transfer what it does in it. A device that is idle takes part in
// sums and updates, with zeros, and gives of a model's outputs none. Fails (usage) where a parameter cannot be split as asked.
Graph cut(const Graph& whole, int device);
bool same_program(const Graph& whole, int a, int b);  // of these two devices
bool is_idle(const Graph& whole, int device);  // it has nothing of what is split along an axis of its mesh
std::vector<int> outputs_on(const Graph& whole, int device);  // those of the graph that the device gives

// The optimizer's update of each parameter whose gradient is an output; the gradients are none any more. `notes`: what groups of
// parameters come to, for the user. Fails (usage) where a group names nothing.
Graph append_updates(Graph graph, const CompileOptions& options, std::vector<std::string>* notes = nullptr);

// The running variance of a normalization whose variance nothing else reads follows what is kept for the gradient, where that is
// offered. Once updates are appended.
Graph running_variances(const Graph& graph, const Fuses& fuses);

// Updates that do the same in one node, where that is offered, one for each bucket of gradients. Last of all.
Graph group_updates(Graph graph, const Fuses& fuses);

// Gathers sums over the same devices.
Graph bucket_sums(Graph graph, const CompileOptions& options);

}  // namespace tandem
