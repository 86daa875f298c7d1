// The mean of a loss or a metric that an ONNX file computes, over all samples: the file runs on one device, on what the model
// gave for each batch, which every rank has whole. Of numbers for each sample the mean is by the samples' weights, unless the
// file takes these itself; one number of a batch counts as much as its samples do together.
#pragma once
#include "trainer/loss_measures.h"
#include "trainer/template/graph_file.h"

namespace tandem {

class FileMeasure {
 public:
  // `labels`: the type of one sample's, as the batches have them; absent: none. Both outlive it. Fails (usage) where the file takes
  // labels and there are none, or such as cannot become its own.
  FileMeasure(const CompiledModel& state, GraphFile file, std::optional<TensorType> labels);
  // `labels`, of batch.size samples; null where the file takes none.
  void add(const Plan& plan, const Runner& runner, const BatchLabels& batch, const std::byte* labels);
  double mean() const { return weight_ == 0 ? 0 : sum_ / weight_; }
  const GraphFile& file() const { return file_; }
  bool reads_inputs() const;  // of the model

 private:
  Tensor given(const FileInput& input, const TensorType& wanted, const Plan& plan, const Runner& runner, const BatchLabels& batch,
               const std::byte* labels) const;
  const CompiledModel& s_;
  GraphFile file_;
  std::optional<TensorType> labels_;
  double sum_ = 0, weight_ = 0;
};

}  // namespace tandem
