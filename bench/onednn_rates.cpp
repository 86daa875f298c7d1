// How fast the primitives of the oneDNN that this was built with (or that the loader finds) are, for layers of the benchmarks'
// networks: a line each, with what it takes and the library's name for what it chose. bench/onednn runs it with several libraries.
//   onednn_rates [THREADS [PART OF A LINE]]
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/onednn/compat.h"

namespace tandem::onednn {
namespace {

using Type = dnnl::memory::data_type;

// A convolution of square images and filters, or where `size` is 0 an inner product of `batch` rows; `count` of a step.
struct Layer {
  const char* network;
  int count;
  std::int64_t batch, in, out, size, kernel, stride, groups;
};

constexpr Layer layers[] = {
    {"resnet50", 1, 8, 3, 64, 224, 7, 2, 1},
    {"resnet50", 1, 8, 64, 64, 56, 1, 1, 1},
    {"resnet50", 3, 8, 64, 64, 56, 3, 1, 1},
    {"resnet50", 4, 8, 64, 256, 56, 1, 1, 1},
    {"resnet50", 2, 8, 256, 64, 56, 1, 1, 1},
    {"resnet50", 1, 8, 256, 128, 56, 1, 1, 1},
    {"resnet50", 1, 8, 128, 128, 56, 3, 2, 1},
    {"resnet50", 1, 8, 256, 512, 56, 1, 2, 1},
    {"resnet50", 4, 8, 128, 512, 28, 1, 1, 1},
    {"resnet50", 3, 8, 512, 128, 28, 1, 1, 1},
    {"resnet50", 3, 8, 128, 128, 28, 3, 1, 1},
    {"resnet50", 1, 8, 512, 256, 28, 1, 1, 1},
    {"resnet50", 1, 8, 256, 256, 28, 3, 2, 1},
    {"resnet50", 1, 8, 512, 1024, 28, 1, 2, 1},
    {"resnet50", 6, 8, 256, 1024, 14, 1, 1, 1},
    {"resnet50", 5, 8, 1024, 256, 14, 1, 1, 1},
    {"resnet50", 5, 8, 256, 256, 14, 3, 1, 1},
    {"resnet50", 1, 8, 1024, 512, 14, 1, 1, 1},
    {"resnet50", 1, 8, 512, 512, 14, 3, 2, 1},
    {"resnet50", 1, 8, 1024, 2048, 14, 1, 2, 1},
    {"resnet50", 3, 8, 512, 2048, 7, 1, 1, 1},
    {"resnet50", 2, 8, 2048, 512, 7, 1, 1, 1},
    {"resnet50", 2, 8, 512, 512, 7, 3, 1, 1},
    {"mobilenetv2", 1, 8, 3, 32, 224, 3, 2, 1},
    {"mobilenetv2", 1, 8, 16, 96, 112, 1, 1, 1},
    {"mobilenetv2", 2, 8, 24, 144, 56, 1, 1, 1},
    {"mobilenetv2", 3, 8, 32, 192, 28, 1, 1, 1},
    {"mobilenetv2", 4, 8, 64, 384, 14, 1, 1, 1},
    {"mobilenetv2", 3, 8, 384, 64, 14, 1, 1, 1},
    {"mobilenetv2", 3, 8, 96, 576, 14, 1, 1, 1},
    {"mobilenetv2", 3, 8, 160, 960, 7, 1, 1, 1},
    {"mobilenetv2", 1, 8, 320, 1280, 7, 1, 1, 1},
    {"mobilenetv2, depthwise", 1, 8, 96, 96, 112, 3, 2, 96},
    {"mobilenetv2, depthwise", 2, 8, 144, 144, 56, 3, 1, 144},
    {"mobilenetv2, depthwise", 2, 8, 192, 192, 28, 3, 1, 192},
    {"mobilenetv2, depthwise", 4, 8, 384, 384, 14, 3, 1, 384},
    {"mobilenetv2, depthwise", 3, 8, 960, 960, 7, 3, 1, 960},
    {"lenet", 1, 128, 1, 20, 28, 5, 1, 1},
    {"lenet", 1, 128, 20, 50, 14, 5, 1, 1},
    {"lenet", 1, 128, 2450, 500, 0, 0, 0, 0},
    {"mlp", 1, 128, 784, 512, 0, 0, 0, 0},
    {"mlp", 1, 128, 512, 512, 0, 0, 0, 0},
    {"bert_mini, gpt_mini", 16, 1024, 256, 256, 0, 0, 0, 0},
    {"bert_mini, gpt_mini", 4, 1024, 256, 1024, 0, 0, 0, 0},
    {"bert_mini, gpt_mini", 4, 1024, 1024, 256, 0, 0, 0, 0},
    {"gpt_mini, tokens", 1, 1024, 256, 8192, 0, 0, 0, 0},
    {"vit_tiny", 48, 1568, 192, 192, 0, 0, 0, 0},
    {"vit_tiny", 12, 1568, 192, 768, 0, 0, 0, 0},
    {"vit_tiny", 12, 1568, 768, 192, 0, 0, 0, 0},
};

enum Direction { forward, data, weights };
constexpr const char* names[] = {"forward", "data", "weights"};

struct Descs {
  Desc x, w, y;
};

Desc any(Dims dims, Type type) { return {std::move(dims), type, dnnl::memory::format_tag::any}; }
Desc plain(Dims dims, Type type) {
  return {dims, type,
          dims.size() == 2   ? dnnl::memory::format_tag::ab
          : dims.size() == 4 ? dnnl::memory::format_tag::abcd
                             : dnnl::memory::format_tag::abcde};
}

dnnl::primitive_desc_base convolution(const Layer& l, Direction direction, Type type, dnnl::algorithm algorithm,
                                      const dnnl::engine& engine) {
  const dnnl::primitive_attr attr;
  const std::int64_t pad = l.kernel / 2, size = (l.size + 2 * pad - l.kernel) / l.stride + 1,
                     end = (size - 1) * l.stride + l.kernel - l.size - pad;
  const Dims filter =
      l.groups > 1 ? Dims{l.groups, l.out / l.groups, l.in / l.groups, l.kernel, l.kernel} : Dims{l.out, l.in, l.kernel, l.kernel};
  // As everywhere an image's three channels lie in the order of the file.
  const Dims image{l.batch, l.in, l.size, l.size};
  const Desc x = l.in <= 4 && direction != data ? plain(image, type) : any(image, type), w = any(filter, type),
             y = any({l.batch, l.out, size, size}, type);
  const Dims strides{l.stride, l.stride}, dilations{0, 0}, before{pad, pad}, behind{end, end};
  const auto hint = compat::describe<dnnl::convolution_forward>(engine, attr, dnnl::prop_kind::forward_training, algorithm, x, w, Desc(), y,
                                                                strides, dilations, before, behind);
  if (!hint || direction == forward) return hint;
  if (direction == data)
    return compat::describe_backward<dnnl::convolution_backward_data>(engine, attr, hint, algorithm, x, w, y, strides, dilations, before,
                                                                      behind);
  return compat::describe_backward<dnnl::convolution_backward_weights>(engine, attr, hint, algorithm, x, w, Desc(), y, strides, dilations,
                                                                       before, behind);
}

// Activations and their gradients are rows; the weight lies as the library likes it.
dnnl::primitive_desc_base inner_product(const Layer& l, Direction direction, Type type, const dnnl::engine& engine) {
  const dnnl::primitive_attr attr;
  const Desc x = plain({l.batch, l.in}, type), w = any({l.out, l.in}, type), y = plain({l.batch, l.out}, type);
  const auto hint = compat::describe<dnnl::inner_product_forward>(engine, attr, dnnl::prop_kind::forward_training, x, w, Desc(), y);
  if (!hint || direction == forward) return hint;
  if (direction == data) return compat::describe_backward<dnnl::inner_product_backward_data>(engine, attr, hint, x, w, y);
  return compat::describe_backward<dnnl::inner_product_backward_weights>(engine, attr, hint, x, w, Desc(), y);
}

// The median of some runs.
double seconds_of(const dnnl::primitive_desc_base& pd, Direction direction, const dnnl::engine& engine) {
  dnnl::stream stream(engine);
  const dnnl::primitive primitive(pd.get());
  const auto memory = [&](const Desc& d) {
    dnnl::memory m(d, engine);
    std::memset(m.get_data_handle(), 0, d.get_size());
    return m;
  };
  std::unordered_map<int, dnnl::memory> arguments;
  if (direction == forward)
    arguments = {{DNNL_ARG_SRC, memory(pd.query_md(dnnl::query::src_md))},
                 {DNNL_ARG_WEIGHTS, memory(pd.query_md(dnnl::query::weights_md))},
                 {DNNL_ARG_DST, memory(pd.query_md(dnnl::query::dst_md))}};
  if (direction == data)
    arguments = {{DNNL_ARG_DIFF_SRC, memory(pd.query_md(dnnl::query::diff_src_md))},
                 {DNNL_ARG_WEIGHTS, memory(pd.query_md(dnnl::query::weights_md))},
                 {DNNL_ARG_DIFF_DST, memory(pd.query_md(dnnl::query::diff_dst_md))}};
  if (direction == weights)
    arguments = {{DNNL_ARG_SRC, memory(pd.query_md(dnnl::query::src_md))},
                 {DNNL_ARG_DIFF_WEIGHTS, memory(pd.query_md(dnnl::query::diff_weights_md))},
                 {DNNL_ARG_DIFF_DST, memory(pd.query_md(dnnl::query::diff_dst_md))}};
  std::vector<double> times;
  double sum = 0;
  for (int run = -2; run < 15 && (run < 5 || sum < 0.05); ++run) {
    const auto begin = std::chrono::steady_clock::now();
    primitive.execute(stream, arguments);
    stream.wait();
    if (run < 0) continue;
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    sum += times.back();
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

void run(int threads, const std::string& part) {
  omp_set_num_threads(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl_version_t* const version = dnnl_version();
  for (const Layer& l : layers)
    for (const Type type : {Type::f32, Type::bf16})
      for (const Direction direction : {forward, data, weights}) {
        if (direction == data && l.size > 0 && l.in <= 3) continue;  // an image has no gradient
        char line[200];
        std::snprintf(line, sizeof line, "%d.%d.%d\t%s\t%s\t%s\t%d\t%ld×%ld→%ld %ld² %ld² /%ld", version->major, version->minor,
                      version->patch, l.network, type == Type::f32 ? "fp32" : "bf16", names[direction], l.count, l.batch, l.in, l.out,
                      l.size, l.kernel, l.stride);
        if (std::string(line).find(part) == std::string::npos) continue;
        std::vector<dnnl::primitive_desc_base> ways;
        if (l.size == 0) {
          ways.push_back(inner_product(l, direction, type, engine));
        } else {
          ways.push_back(convolution(l, direction, type, dnnl::algorithm::convolution_direct, engine));
          if (l.kernel == 3 && l.stride == 1 && l.groups == 1)
            ways.push_back(convolution(l, direction, type, dnnl::algorithm::convolution_winograd, engine));
        }
        double best = 0;
        std::string how = "none";
        for (const auto& pd : ways) {
          if (!pd) continue;
          const double seconds = seconds_of(pd, direction, engine);
          if (best != 0 && best <= seconds) continue;
          best = seconds;
          how = pd.impl_info_str();
        }
        std::printf("%s\t%.1f\t%s\n", line, 1e6 * best, how.c_str());
        std::fflush(stdout);
      }
}

}  // namespace
}  // namespace tandem::onednn

int main(int argc, char** argv) { tandem::onednn::run(argc > 1 ? std::atoi(argv[1]) : omp_get_max_threads(), argc > 2 ? argv[2] : ""); }
