// How devices share the work, as people write it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "planner/options.h"
#include "planner/plan/plan.h"

namespace tandem {

// "data=2,tensor=4,pipeline=2,zero=1": factors may be absent (1), one may be * (what the others leave). An empty text is data parallelism
// over all devices. Fails (usage) on an unknown word, naming the nearest, and on a factor that is no whole number from 1.
Parallelism parse_parallelism(std::string_view text);
// "fc1.weight=tensor:0,w*=data:1". Fails (usage) on what is not PATTERN=AXIS:DIMENSION.
std::vector<Parallelism::Split> parse_splits(const std::vector<std::string>& rules);

// "1f1b", "gpipe", "interleaved=2" or "zb-h1". Fails (usage) on another word, naming the nearest.
PipelineSchedule parse_pipeline_schedule(std::string_view text);
// "layer.[0-5].*;layer.[6-9].*,norm;rest": what each part of the model has. Fails (usage) on one that names nothing.
std::vector<std::string> parse_stages(std::string_view text);

// Whether it says where something lies, and not only how a step is done.
bool says_where(Parallelism parallel);
// With every factor a number. Fails (usage) where their product is not the number of devices.
Parallelism resolved(Parallelism parallel, std::size_t devices);
std::string to_string(const Parallelism& parallel);  // "data=2,tensor=4"

// The placement that options.parallel says: a mesh "data" by "tensor", inputs by their samples. Parameters lie as rules say; what no rule
// speaks of is found out when the graph is placed. Along an axis of layers that some rule names nothing else is split. Fails (usage)
// where a rule matches nothing.
PlacementRequest request_for(const Graph& model, const CompileOptions& options);
// Parameters lie in the parts that another plan has of them, and nothing else is found out.
void keep_parts(PlacementRequest& request, const Plan& plan);

}  // namespace tandem
