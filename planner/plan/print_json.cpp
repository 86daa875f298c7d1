// A plan for programs: all of it, but for the values of constants.
#include <cmath>
#include <utility>

#include "planner/plan/plan_file.h"

namespace tandem {
namespace {

// Writes one JSON text; commas and nesting are its affair. Numbers that JSON does not have become null.
class Json {
 public:
  template <class F>
  void object(F&& members) {
    nest('{', '}', members);
  }
  template <class Range, class F>
  void array(const Range& range, F&& element) {
    nest('[', ']', [&] {
      for (const auto& e : range) {
        separate();
        element(e);
      }
    });
  }
  template <class T>
  void member(std::string_view key, const T& v) {
    this->key(key);
    value(v);
  }
  template <class F>
  void object(std::string_view name, F&& members) {
    key(name);
    object(members);
  }
  template <class Range, class F>
  void array(std::string_view name, const Range& range, F&& element) {
    key(name);
    array(range, element);
  }

  void value(std::string_view v) { text_ += '"' + escaped(v) + '"'; }
  void value(const std::string& v) { value(std::string_view(v)); }
  void value(const char* v) { value(std::string_view(v)); }
  void value(bool v) { text_ += v ? "true" : "false"; }
  void value(double v) { text_ += std::isfinite(v) ? text_of(v) : "null"; }
  void value(float v) { value(static_cast<double>(v)); }
  void value(std::int64_t v) { text_ += std::to_string(v); }
  void value(int v) { text_ += std::to_string(v); }
  void value(const std::vector<std::string>& v) {
    array(v, [&](const std::string& s) { value(s); });
  }
  void value(const Ints& v) {
    array(v, [&](std::int64_t n) { value(n); });
  }
  void value(const Floats& v) {
    array(v, [&](float n) { value(n); });
  }
  void value(const Shape& v) { value(v.dims); }
  void value(const Tensor& v) { value(to_string(v.type())); }
  void value(const AttributeValue& v) {
    std::visit([&](const auto& x) { value(x); }, v);
  }
  void value(BufferId v) { value(v.index); }
  void value(StepId v) { value(v.index); }
  template <class Id>
  void ids(std::string_view name, const std::vector<Id>& v) {
    array(name, v, [&](Id id) { value(id); });
  }
  std::string take() { return std::move(text_) + "\n"; }

 private:
  template <class F>
  void nest(char open, char close, F&& inside) {
    text_ += open;
    const bool outer = std::exchange(first_, true);
    inside();
    first_ = outer;
    text_ += close;
  }
  void separate() {
    if (!std::exchange(first_, false)) text_ += ',';
  }
  void key(std::string_view name) {
    separate();
    value(name);
    text_ += ':';
  }
  // Bytes that are no UTF-8 are written as if they were Latin-1.
  static std::string escaped(std::string_view v) {
    std::string s;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const unsigned char c = static_cast<unsigned char>(v[i]);
      if (c == '"' || c == '\\')
        s += {'\\', static_cast<char>(c)};
      else if (c == '\n')
        s += "\\n";
      else if (c < 0x20 || c == 0x7f)
        s += code(c);
      else if (c < 0x80)
        s += static_cast<char>(c);
      else if (const std::size_t n = sequence(v.substr(i)); n > 0)
        s += v.substr(i, n), i += n - 1;
      else
        s += code(c);
    }
    return s;
  }
  static std::string code(unsigned char c) { return concat("\\u00", "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]); }
  // Length of the UTF-8 sequence of two to four bytes at the start, 0 where there is none.
  static std::size_t sequence(std::string_view v) {
    const unsigned char c = static_cast<unsigned char>(v[0]);
    const std::size_t n = c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
    if (n == 0 || v.size() < n) return 0;
    for (std::size_t i = 1; i < n; ++i)
      if ((v[i] & 0xC0) != 0x80) return 0;
    const unsigned char second = static_cast<unsigned char>(v[1]);  // overlong forms, surrogates, past U+10FFFF
    if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) || (c == 0xF0 && second < 0x90) || (c == 0xF4 && second > 0x8F))
      return 0;
    return n;
  }

  std::string text_;
  bool first_ = true;
};

void members(Json& j, const TensorType& type) {
  j.member("dtype", name_of(type.dtype));
  j.member("shape", type.shape);
}
void members(Json& j, const Operand& operand) {
  members(j, TensorType{operand.dtype, operand.shape});
  j.member("layout", operand.layout.tag());
}

void write(Json& j, const Buffer& b) {
  j.object([&] {
    j.member("name", b.name);
    members(j, b.operand);
    j.member("memory", name_of(b.memory));
    j.member("arena", name_of(b.arena));
    j.member("offset", b.offset);
    j.member("bytes", b.bytes);
    j.member("first", b.first);
    j.member("last", b.last);
    if (b.alias.present()) j.member("alias", b.alias);
    if (b.constant) j.member("constant", true);
  });
}

void write(Json& j, const Step& s) {
  j.object([&] {
    j.member("kind", name_of(s.kind));
    if (!s.op.empty()) j.member("op", s.op);
    if (!s.kernel.empty()) j.member("kernel", s.kernel);
    if (!s.attributes.empty())
      j.object("attributes", [&] {
        for (const auto& [name, value] : s.attributes) j.member(name, value);
      });
    j.ids("inputs", s.inputs);
    j.ids("outputs", s.outputs);
    if (s.workspace.present()) j.member("workspace", s.workspace);
    if (s.host >= 0) j.member("host", s.host);
    if (s.bucket >= 0) j.member("bucket", s.bucket);
    j.member("stream", s.stream);
    j.ids("waits", s.waits);
    j.member("origin", s.origin);
    j.member("flops", s.flops);
    j.member("bytes", s.bytes);
    j.member("seconds", s.seconds);
    j.member("measured", s.measured);
  });
}

void write(Json& j, const DevicePlan& d) {
  j.object([&] {
    j.member("device", to_string(d.device));
    j.object("model", [&] {
      j.member("name", d.model.name);
      j.member("memory", d.model.memory);
      j.member("flops", d.model.flops);
      j.member("bandwidth", d.model.bandwidth);
      j.member("launch_seconds", d.model.launch_seconds);
      j.member("link_bandwidth", d.model.link_bandwidth);
      j.member("threads", d.model.threads);
    });
    j.member("weight", d.weight);
    j.member("slice_begin", d.slice_begin);
    j.member("slice_size", d.slice_size);
    std::int64_t bound = 0;
    for (const Arena& a : d.arenas) bound += a.lower_bound;
    j.member("peak_bytes", d.peak_bytes());
    j.member("lower_bound_bytes", bound);
    j.object("memory", [&] {
      for (const auto& [c, bytes] : d.memory) j.member(name_of(c), bytes);
    });
    j.array("arenas", d.arenas, [&](const Arena& a) {
      j.object([&] {
        j.member("kind", name_of(a.kind));
        j.member("bytes", a.bytes);
        j.member("lower_bound", a.lower_bound);
      });
    });
    j.array("buffers", d.buffers, [&](const Buffer& b) { write(j, b); });
    j.array("steps", d.steps, [&](const Step& s) { write(j, s); });
  });
}

}  // namespace

std::string json_of(const Plan& plan) {
  Json j;
  j.object([&] {
    j.member("version", plan.version);
    j.member("hash", hash_of(plan));
    j.member("model", plan.model);
    j.member("mode", plan.mode == PlanMode::training ? "training" : "inference");
    j.member("batch", plan.batch);
    j.member("loss", plan.loss);
    j.member("optimizer", plan.optimizer);
    j.member("precision", name_of(plan.precision));
    j.member("seconds", plan.seconds);
    j.object("options", [&] {
      j.member("threads", plan.options.threads);
      j.member("deterministic", plan.options.deterministic);
      j.member("winograd", plan.options.winograd);
      j.member("tf32", plan.options.tf32);
      j.member("layout", plan.options.preference == LayoutPreference::blocked ? "blocked" : "channels_last");
    });
    j.array("inputs", plan.inputs, [&](const HostInput& i) {
      j.object([&] {
        j.member("name", i.name);
        members(j, i.type);
        j.member("batched", i.batched);
      });
    });
    j.array("outputs", plan.outputs, [&](const HostOutput& o) {
      j.object([&] {
        j.member("name", o.name);
        members(j, o.type);
        j.member("combine", o.combine == Combine::rows ? "rows" : "sum");
      });
    });
    j.array("parameters", plan.parameters, [&](const PlanParameter& p) {
      j.object([&] {
        j.member("name", p.name);
        members(j, p.type);
        j.member("source", p.source.tag());
        j.object("operand", [&] { members(j, p.operand); });
        j.member("arena", name_of(p.arena));
        j.member("offset", p.offset);
        j.member("trainable", p.trainable);
        if (!p.copy_of.empty()) j.member("copy_of", p.copy_of);
      });
    });
    j.array("buckets", plan.buckets, [&](const Bucket& b) {
      j.object([&] {
        j.member("name", b.name);
        j.member("elements", b.elements);
        j.member("dtype", name_of(b.dtype));
        j.member("values", b.values);
        j.member("seconds", b.seconds);
      });
    });
    j.array("devices", plan.devices, [&](const DevicePlan& d) { write(j, d); });
    j.member("warnings", plan.warnings);
  });
  return j.take();
}

}  // namespace tandem
