// Each row breaks a sound plan in one way and names the breach.
#include <gtest/gtest.h>

#include <functional>

#include "tests/planner/broken_plan.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {
namespace {

// The linear plan's steps: 0-2 slices of x, scalars, random; 3 Scale; 4 Gradient; 5 all_reduce; 6, 7 concat of y and
// loss; 8 Update. Buffers: 0 x, 1 scalars, 2 random, 3 w, 4 gradient, 5 y, 6 loss, 7 w'.
struct Row {
  std::string name;
  std::function<void(Plan&)> change;
  std::string breach;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

void two_lives(Plan& p, StepId first, StepId last) {
  DeviceProgram& d = p.programs[0];
  Buffer more = d.buffers[5];
  more.name = "more";
  more.first = first;
  more.last = last;
  d.buffers.push_back(more);
}

// The parameter is cut along an axis, so that devices' parts begin there.
void cut(Plan& p, int axis, std::vector<std::int64_t> begins, std::int64_t size = 3, std::int64_t outer = 1) {
  p.cuts = {{std::move(begins)}};
  for (ProgramPart& part : p.parameters[0].parts) part.ranges = {{axis, 0, 1, size, outer}};
}

class BrokenPlan : public testing::TestWithParam<Row> {};
TEST_P(BrokenPlan, IsNamed) {
  expect_breach(linear_plan({2, 1}), GetParam().change, GetParam().breach);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BrokenPlan,
    testing::Values(
        Row{"version", [](Plan& p) { p.version = 0; }, "version 0, expected 6"},
        Row{"no_devices", [](Plan& p) { p.devices.clear(); }, "there are no devices"},
        Row{"negative_batch", [](Plan& p) { p.batch = -1; }, "batch is -1"},
        Row{"batch_not_sliced", [](Plan& p) { p.batch = p.inputs[0].type.shape[0] = p.outputs[1].type.shape[0] = 4; }, "row 3 of input 'x' is read by no device"},
        Row{"rows_read_past_the_batch", [](Plan& p) { p.devices[1].slice_begin = 3; }, "step 0 (slice): buffer 0 'x' has 1 rows from 3, but 'x' has 3"},
        Row{"rows_read_before_the_batch", [](Plan& p) { p.devices[1].slice_begin = -1; }, "fake:1: works on 1 rows from -1 of 3"},
        Row{"rows_left_out", [](Plan& p) { p.devices[1].slice_begin = 1; }, "row 2 of input 'x' is read by no device"},
        Row{"rows_written_twice", [](Plan& p) { p.devices[1].slice_begin = 1; }, "row 1 of output 'y' is not written once"},
        Row{"rows_not_written", [](Plan& p) { p.program_of(1).steps[6] = p.program_of(1).steps[3]; }, "row 2 of output 'y' is not written once"},
        Row{"part_written_twice", [](Plan& p) { p.program_of(1).steps[6] = p.program_of(1).steps[7]; }, "part 1 of output 'loss' is not written once"},
        Row{"more_parts_than_said", [](Plan& p) { p.outputs[0].parts = 1; }, "output 'loss' has 1 parts, and 2 are given"},
        Row{"more_parts_than_devices", [](Plan& p) { p.outputs[0].parts = 3; }, "output 'loss' has 3 parts, expected one of each device and micro-batch at most"},
        Row{"slice_outside_the_batch", [](Plan& p) { p.devices[1].slice_begin = 3; }, "fake:1: works on 1 rows from 3 of 3"},
        Row{"input_without_batch",
            [](Plan& p) {
              p.inputs[0].type.shape = {7, 3};
            },
            "input 'x' of float32[7,3] has no batch of 3"},
        Row{"output_without_batch", [](Plan& p) { p.outputs[1].type.shape = {}; }, "output 'y' of float32[] has no batch of 3"},
        Row{"parameter_twice", [](Plan& p) { p.parameters.push_back(p.parameters[0]); }, "there are two parameters 'w'"},
        Row{"parameters_overlap", [](Plan& p) { (p.parameters.push_back(p.parameters[0]), p.parameters[1].name = "v"); },
            "parameter 'v' overlaps parameter 'w'"},
        Row{"parameter_outside", [](Plan& p) { p.parameters[0].parts[0].offset = 64; },
            "parameter 'w' lies at 64+12, outside arena parameters's 64 bytes"},
        Row{"parameter_in_scratch", [](Plan& p) { p.parameters[0].arena = ArenaKind::scratch; }, "parameter 'w' lies in arena scratch"},
        Row{"parameter_of_other_size", [](Plan& p) { p.parameters[0].type.shape = {4}; },
            "parameter 'w' of float32[4] is kept as float32[3]:a"},
        Row{"parameter_source", [](Plan& p) { p.parameters[0].source = Layout("ba"); }, "source layout ba does not fit [3]"},
        Row{"parameter_nowhere", [](Plan& p) { p.parameters[0].parts.clear(); }, "parameter 'w' is on no device"},
        Row{"parameter_of_another_program", [](Plan& p) { p.parameters[0].parts[1].program = {2}; }, "parameter 'w' has a part of program 2 of 2, behind one of 0"},
        Row{"parameter_twice_in_a_program", [](Plan& p) { p.parameters[0].parts[1].program = {0}; }, "parameter 'w' has a part of program 0 of 2, behind one of 0"},
        Row{"parameter_not_on_the_device_that_reads_it", [](Plan& p) { p.parameters[0].parts.pop_back(); }, "fake:1: step 3 (Scale) reads buffer 3 'w', which nothing wrote"},
        Row{"parameter_cut_wrong", [](Plan& p) { cut(p, 1, {0, 0}); }, "is kept as float32[3]:a from 0 of axis 1 on, 3"},
        Row{"parameter_cut_past_its_end", [](Plan& p) { cut(p, 0, {0, 1}); }, "is kept as float32[3]:a from 1 of axis 0 on, 3"},
        Row{"parameter_cut_in_no_way", [](Plan& p) { p.parameters[0].parts[1].ranges = {{0, 0, 1, 3}}; }, "parameter 'w' is cut in way 0 of 0"},
        Row{"cut_of_fewer_devices", [](Plan& p) { p.cuts = {{{0}}}; }, "cut 0 has 1 begins, expected one of each of 2 devices"},
        Row{"cut_before_the_beginning", [](Plan& p) { p.cuts = {{{0, -1}}}; }, "expected one of each of 2 devices, 0 to 2147483648"},
        Row{"runs_no_program", [](Plan& p) { p.devices[1].program = {2}; }, "fake:1: runs program 2 of 2"},
        Row{"program_of_nobody", [](Plan& p) { p.devices[1].program = {0}; }, "program 1 is run by no device"},
        Row{"program_of_two_backends", [](Plan& p) { (p.devices[1].program = {0}, p.devices[1].device.backend = "other"); }, "other:1 and fake:0 run one program"},
        Row{"parameter_with_a_gap",
            [](Plan& p) {
              p.parameters[0].type.shape = {7};
              cut(p, 0, {0, 4});
            },
            "parameter 'w' of float32[7]: no device keeps 1 of its elements"},
        Row{"parameter_parts_overlap",
            [](Plan& p) {
              p.parameters[0].type.shape = {5};
              cut(p, 0, {0, 2});
            },
            "parameter 'w' of float32[5]: the parts on devices 0 and 1 overlap"},
        Row{"parameter_of_uneven_runs",
            [](Plan& p) {
              p.parameters[0].type.shape = {7};
              cut(p, 0, {0, 0}, 1, 3);
            },
            "is kept as float32[3]:a from 0 of axis 0 on, 1 in each of 3 runs"},
        Row{"parameter_in_too_many_runs",
            [](Plan& p) {
              p.parameters[0].type.shape = {std::int64_t{1} << 40};
              cut(p, 0, {0, 1}, 1, std::int64_t{1} << 39);
            },
            "is kept as float32[3]:a"},
        Row{"copy_of_nothing", [](Plan& p) { p.parameters[0].role = ValueRole::copy; p.parameters[0].of = "v"; }, "parameter 'w' of float32[3] is no copy in 16 bits of a parameter 'v'"},
        Row{"copy_of_itself", [](Plan& p) { p.parameters[0].role = ValueRole::copy; p.parameters[0].of = "w"; }, "is no copy in 16 bits of a parameter 'w'"},
        Row{"staged_in_scratch", [](Plan& p) { p.program_of(0).steps[0].workspace = {5}; }, "comes by way of buffer 5 'y' of 64 bytes in arena scratch"},
        Row{"staged_in_too_little",
            [](Plan& p) {
              p = linear_plan({9}, 3, true);
              p.program_of(0).buffers.push_back(
                  {.name = "little", .operand = {DType::float32, {1}, Layout("a")}, .arena = ArenaKind::staging, .bytes = 64});
              p.program_of(0).steps[0].workspace = {9};
            },
            "slice) of 108 bytes on stream 0 comes by way of buffer 9 'little' of 64 bytes"},
        Row{"staged_beside_the_step",
            [](Plan& p) {
              p = linear_plan({2}, 3, true);
              p.program_of(0).steps[0].stream = 2;
            },
            "of 24 bytes on stream 2 comes by way of buffer 8"},
        Row{"staging_read",
            [](Plan& p) {
              p = linear_plan({2}, 3, true);
              p.program_of(0).steps[3].inputs[0] = {8};
            },
            "step 3 (Scale) names buffer 8 'x/staging' in arena staging"},
        Row{"arenas_missing", [](Plan& p) { p.program_of(0).arenas.pop_back(); }, "arenas are not parameters, optimizer"},
        Row{"arena_not_aligned", [](Plan& p) { p.program_of(0).arenas[3].bytes += 1; },
            "arena scratch has 321 bytes, expected a multiple of 64"},
        Row{"arena_below_its_bound", [](Plan& p) { p.program_of(0).arenas[0].lower_bound = 65; },
            "arena parameters: lower bound 65 is outside 0 to 64"},
        Row{"buffer_not_aligned", [](Plan& p) { p.program_of(0).buffers[1].offset += 4; },
            "buffer 1 'tandem.scalars' lies at 68, expected a multiple of 64"},
        Row{"buffer_outside", [](Plan& p) { p.program_of(0).buffers[6].offset = 1 << 20; },
            "buffer 6 'loss' ends at 1048576+64, past arena scratch's"},
        Row{"buffer_outside_by_overflow", [](Plan& p) { p.program_of(0).buffers[6].offset = INT64_MAX / 64 * 64; }, "past arena scratch's"},
        Row{"buffer_of_least_bytes", [](Plan& p) { p.program_of(0).buffers[6].bytes = INT64_MIN; }, "has -9223372036854775808 bytes"},
        Row{"buffer_at_least_offset", [](Plan& p) { p.program_of(0).buffers[6].offset = INT64_MIN; }, "lies at -9223372036854775808"},
        Row{"buffer_too_small",
            [](Plan& p) {
              p.program_of(0).buffers[0].operand.shape = {2, 300};
            },
            "buffer 0 'x' has 64 bytes, expected a multiple of 64 that holds 2400"},
        Row{"buffer_layout", [](Plan& p) { p.program_of(0).buffers[0].operand.layout = Layout("abc"); },
            "buffer 0 'x': layout 'abc' does not fit shape [2,3]"},
        Row{"buffer_layout_axis_twice", [](Plan& p) { p.program_of(0).buffers[0].operand.layout = Layout("aa"); }, "layout 'aa' does not fit"},
        Row{"buffer_layout_block_axis", [](Plan& p) { p.program_of(0).buffers[0].operand.layout = Layout("aB16z"); },
            "layout 'aB16z' does not fit"},
        Row{"buffer_layout_not_chosen", [](Plan& p) { p.program_of(0).buffers[0].operand.layout = Layout(); }, "layout 'any' does not fit"},
        Row{"buffer_negative_dimension",
            [](Plan& p) {
              p.program_of(0).buffers[0].operand.shape = {-1, 3};
            },
            "shape [-1,3] has a negative dimension"},
        Row{"buffer_too_many_elements",
            [](Plan& p) {
              p.program_of(0).buffers[0].operand.shape = {1ll << 40, 1ll << 40};
            },
            "is too large"},
        Row{"buffer_of_strings", [](Plan& p) { p.program_of(0).buffers[0].operand.dtype = DType::string; },
            "element type string (8) cannot be stored"},
        Row{"life_outside", [](Plan& p) { p.program_of(0).buffers[0].last = {99}; }, "buffer 0 'x' lives from step 0 to 99 of 9"},
        Row{"used_after_its_life", [](Plan& p) { p.program_of(0).buffers[5].last = {3}; },
            "step 4 (Gradient) uses buffer 5 'y' outside its life, steps 3 to 3"},
        Row{"live_buffers_overlap", [](Plan& p) { two_lives(p, {6}, {8}); },
            "buffer 8 'more' and buffer 5 'y' share memory and both live at step 6"},
        Row{"live_buffers_overlap_in_part", [](Plan& p) { p.program_of(0).buffers[0].bytes += 64; },
            "buffer 1 'tandem.scalars' and buffer 0 'x' share memory and both live at step 1"},
        Row{"alias_outside", [](Plan& p) { p.program_of(0).buffers[7].alias = {4}; },
            "buffer 7 'w'' lies outside buffer 4 'w/gradient' whose memory it shares"},
        Row{"alias_of_nothing", [](Plan& p) { p.program_of(0).buffers[7].alias = {99}; },
            "buffer 7 'w'' shares buffer 99, which does not exist"},
        Row{"alias_cycle", [](Plan& p) { p.program_of(0).buffers[3].alias = {7}; }, "shares memory with itself"},
        Row{"constant_of_other_type", [](Plan& p) { p.program_of(0).buffers[3].constant = Tensor::of<float>({1}, {1}); },
            "buffer 3 'w' of float32[3] has a constant of float32[1]"},
        Row{"constant_in_scratch",
            [](Plan& p) {
              p.program_of(0).buffers[5].constant = Tensor(TensorType{DType::float32, {2, 3}});
            },
            "is a constant in arena scratch, expected constants"},
        Row{"operand_missing", [](Plan& p) { p.program_of(0).steps[3].inputs[0] = {77}; },
            "step 3 (Scale) names buffer 77, which does not exist"},
        Row{"slice_of_nothing", [](Plan& p) { p.program_of(0).steps[0].outputs[0] = {}; }, "step 0 (slice) names buffer -1"},
        Row{"slice_of_no_input", [](Plan& p) { p.program_of(0).steps[0].as<SliceStep>()->host = 3; }, "step 0 (slice) reads input 3 of 3"},
        Row{"slice_of_other_rows",
            [](Plan& p) {
              p.program_of(0).buffers[0].operand.shape = {1, 3};
            },
            "row 1 of input 'x' is read by no device"},
        Row{"slice_in_another_layout", [](Plan& p) { p.program_of(0).buffers[0].operand.layout = Layout("ba"); },
            "buffer 0 'x' is float32[2,3]:ba, but"},
        Row{"concat_of_no_output", [](Plan& p) { p.program_of(0).steps[6].as<ConcatStep>()->host = -1; }, "step 6 (concat) writes output -1 of 2"},
        Row{"concat_of_other_type", [](Plan& p) { p.program_of(0).steps[6].inputs[0] = {6}; },
            "buffer 6 'loss' is float32[]:a, but 'y' has float32[3,3] here"},
        Row{"launch_without_kernel", [](Plan& p) { p.program_of(0).steps[3].as<LaunchStep>()->kernel = ""; }, "step 3 (Scale) names no operator or no kernel"},
        Row{"stream", [](Plan& p) { p.program_of(0).steps[3].stream = 10; }, "step 3 (Scale) runs on stream 10, expected 0 to 9"},
        Row{"waits_for_itself", [](Plan& p) { p.program_of(0).steps[5].waits = {{5}}; },
            "step 5 (all_reduce) waits for step 5, which is not issued before it"},
        Row{"waits_in_a_circle", [](Plan& p) { p.program_of(0).steps[4].waits = {{5}}; },
            "step 4 (Gradient) waits for step 5, which is not issued before it"},
        Row{"sum_before_it_is_there", [](Plan& p) { p.program_of(0).steps[5].waits = {{3}}; },
            "step 5 (all_reduce) reads buffer 4 'w/gradient' without waiting for step 4 (Gradient), which writes it"},
        Row{"used_before_it_is_summed", [](Plan& p) { p.program_of(0).steps[8].waits = {}; },
            "step 8 (Update) reads buffer 4 'w/gradient' without waiting for step 5 (all_reduce), which writes it"},
        Row{"written_while_it_is_read",
            [](Plan& p) {
              (p.program_of(0).steps[6].stream = 1, p.program_of(0).steps[6].waits = {{4}}, p.program_of(0).steps[7].inputs[0] = {6},
               p.program_of(0).steps[8].waits.clear(), p.program_of(0).steps[8].outputs[0] = {5}, p.program_of(0).buffers[5].last = {8});
            },
            "step 8 (Update) writes buffer 5 'y' without waiting for step 6 (concat), which uses that memory"},
        Row{"nothing_wrote_it", [](Plan& p) { std::swap(p.program_of(0).steps[3].inputs[0], p.program_of(0).steps[3].outputs[0]); },
            "step 3 (Scale) reads buffer 5 'y', which nothing wrote"},
        Row{"exchange_missing", [](Plan& p) { p.exchanges.clear(); }, "step 5 (exchange) names exchange 0 of 0"},
        Row{"exchange_too_large", [](Plan& p) { p.exchanges[0].elements = 17; },
            "step 5 (all_reduce) exchanges 17 float32 values by buffer 4 'w/gradient'"},
        Row{"exchange_of_another_type", [](Plan& p) { p.exchanges[0].dtype = DType::float64; }, "exchanges 3 float64 values by"}),
    [](const auto& info) { return info.param.name; });

// Kernels rely on what their operator's rule says of operands and attributes.
struct LaunchRow {
  std::string name, op;
  std::vector<Shape> inputs;  // an empty list of dims is an operand left out
  Shape output;
  Attributes attributes;
  std::string breach;  // empty: none
};
void PrintTo(const LaunchRow& row, std::ostream* out) {
  *out << row.name;
}

class Launch : public testing::TestWithParam<LaunchRow> {};
TEST_P(Launch, IsWhatItsOperatorSays) {
  const LaunchRow& row = GetParam();
  DeviceBuilder d(0, 0, 1);
  std::vector<BufferId> inputs;
  for (const Shape& s : row.inputs)
    inputs.push_back(s.rank() == 0 ? BufferId{} : d.constant("in", Tensor(TensorType{DType::float32, s}), Layout::row_major(s.rank())));
  d.launch(row.op, inputs, {d.floats("out", row.output)}, row.attributes);
  Plan plan;
  plan.batch = 1;
  add_device(plan, d.done());
  std::string breach;
  try {
    verify(plan);
  } catch (const Error& e) {
    breach = e.what();
  }
  EXPECT_TRUE(row.breach.empty() ? breach.empty() : breach.find(row.breach) != std::string::npos) << breach;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Launch,
    testing::Values(LaunchRow{"sound", "MatMul", {{2, 3}, {3, 4}}, {2, 4}, {}, ""},
                    LaunchRow{
                        "output_too_small", "MatMul", {{2, 3}, {3, 4}}, {2, 3}, {}, "output 0 is float32[2,3], expected float32[2,4]"},
                    LaunchRow{"operands_that_do_not_fit", "MatMul", {{2, 3}, {4, 4}}, {2, 4}, {}, "step 0 (MatMul): MatMul 'MatMul'"},
                    LaunchRow{"operand_left_out", "MatMul", {{2, 3}, {}}, {2, 4}, {}, "input 1 is missing"},
                    LaunchRow{"no_operands", "MatMul", {}, {2, 4}, {}, "input 0 is missing"},
                    LaunchRow{"operand_its_rule_does_not_read", "ReluBackward", {{2, 3}, {}}, {2, 3}, {}, "input 1 is missing"},
                    LaunchRow{"output_left_out",
                              "MaxPoolTraining",
                              {{1, 1, 2, 2}},
                              {1, 1, 1, 1},
                              {{"kernel_shape", Ints{2, 2}}},
                              "has 1 outputs, expected at least 2"},
                    LaunchRow{"attribute_of_another_type", "Softmax", {{2, 3}}, {2, 3}, {{"axis", std::string("1")}}, "attribute 'axis'"},
                    LaunchRow{"unknown_operator", "NoSuchOperator", {}, {2}, {}, ""}),  // no backend has it
    [](const auto& info) { return info.param.name; });

TEST(Verify, NamesEveryBreachAtOnce) {
  Plan plan = linear_plan({2, 1});
  plan.batch = 4;
  plan.program_of(0).arenas[0].lower_bound = 65;
  plan.program_of(1).buffers[0].last = {99};
  try {
    verify(plan);
    ADD_FAILURE();
  } catch (const Error& e) {
    const std::string text = e.what();
    for (const char* part : {"plan of 'linear' breaks ", "has no batch of 4", "lower bound 65", "lives from step 0 to 99"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

// c is made where a lay, and b in place of a.
TEST(Verify, RefusesWhatReadsWhatAnotherValueHasTakenThePlaceOf) {
  Plan plan;
  plan.batch = 1;
  DeviceBuilder d(0, 0, 1);
  const BufferId a = d.floats("a", {16}), b = d.alias("b", a, {DType::float32, {16}, Layout("a")}),
                 view = d.alias("view", b, {DType::float32, {4, 4}, Layout("ab")}), c = d.floats("c", {16});
  d.launch("Fill", {}, {a}, {{"shape", Ints{16}}});
  d.launch("See", {a}, {b});
  d.launch("See", {view}, {c});
  d.launch("See", {c}, {});
  add_device(plan, d.done());
  EXPECT_NO_THROW(verify(plan));
  expect_breach(
      plan, [&](Plan& p) { p.programs[0].steps[2].inputs = {a}; },
      "step 2 (See) reads buffer 0 'a', in whose memory buffer 1 'b' is by then");
  Plan reused = plan;
  for (Buffer& buffer : reused.programs[0].buffers) buffer.offset = 0;
  reused.programs[0].buffers[c].first = {3};
  reused.programs[0].steps[2].outputs.clear();
  expect_breach(
      reused =
          [&] {
            Plan p = reused;
            p.programs[0].steps[3].inputs.clear();
            return p;
          }(),
      [&](Plan& p) { p.programs[0].steps[3].inputs = {c}; }, "step 3 (See) reads buffer 3 'c', in whose memory buffer 1 'b' is by then");
}

TEST(Verify, AcceptsMemoryReusedAcrossStreamsBehindAWait) {
  Plan plan;
  plan.model = "reuse";
  plan.batch = 1;
  DeviceBuilder d(0, 0, 1);
  const BufferId a = d.floats("a", {16}), b = d.floats("b", {16});
  const Attributes filled{{"shape", Ints{16}}};
  d.launch("Fill", {}, {a}, filled);
  const StepId read = d.launch("See", {a}, {});
  d.last().stream = 1;
  d.last().waits = {{0}};
  d.launch("Fill", {}, {b}, filled);
  d.last().waits = {read};
  add_device(plan, d.done());
  plan.programs[0].buffers[1].offset = 0;  // b lies where a lay
  EXPECT_NO_THROW(verify(plan));
  plan.program_of(0).steps[2].waits.clear();
  EXPECT_THROW(verify(plan), Error);
}

}  // namespace
}  // namespace tandem::test
