// Plans of two and three devices that pass values to each other, each broken in one way.
#include <gtest/gtest.h>

#include <functional>

#include "planner/plan/plan_file.h"
#include "tests/planner/broken_plan.h"
#include "tests/runtime/plan_builder.h"

namespace tandem::test {
namespace {

// Device 0 sends x [2,3] to device 1, which sends it on to device 2 and back to device 0. Exchanges: 0 "there" 0→1, 1 "on" 1→2, 2 "back"
// 1→0.
// Steps of device 0: 0 slice, 1 send, 2 receive; of 1: 0 receive, 1 send on, 2 send back; of 2: 0 receive.
Plan chain() {
  Plan plan;
  plan.model = "chain";
  plan.batch = 2;
  const TensorType type{DType::float32, {2, 3}};
  plan.inputs = {{"x", type, true}};
  plan.exchanges = {{.kind = ExchangeKind::send, .name = "there", .devices = {0, 1}, .elements = 6},
                    {.kind = ExchangeKind::send, .name = "on", .devices = {1, 2}, .elements = 6},
                    {.kind = ExchangeKind::send, .name = "back", .devices = {1, 0}, .elements = 6}};
  DeviceBuilder a(0, 0, 2), b(1, 0, 2), c(2, 0, 2);
  const BufferId x = a.floats("x", {2, 3}), again = a.floats("again", {2, 3});
  const StepId in = a.slice(0, x);
  a.exchange(0, {x}, {}, {in});
  a.exchange(2, {}, {again});
  const BufferId y = b.floats("y", {2, 3});
  b.exchange(0, {}, {y});
  b.exchange(1, {y}, {});
  b.exchange(2, {y}, {});
  c.exchange(1, {}, {c.floats("z", {2, 3})});
  for (const DeviceBuilder* d : {&a, &b, &c}) add_device(plan, d->done());
  return plan;
}

// Two devices that gather parts [1,3] and [2,3] of a value, scatter the sum of two of its size, and take what the first has.
// Buffers of each: 0 part, 1 whole, 2 part of the sum, 3 what is given to all. Exchanges: 0 gather, 1 scatter, 2 broadcast.
Plan parted() {
  Plan plan;
  plan.model = "parted";
  plan.batch = 3;
  plan.inputs = {{"x", {DType::float32, {3, 3}}, true}};
  plan.exchanges = {{.kind = ExchangeKind::all_gather, .name = "gather", .devices = {0, 1}, .elements = 9},
                    {.kind = ExchangeKind::reduce_scatter, .name = "scatter", .devices = {0, 1}, .elements = 9},
                    {.kind = ExchangeKind::broadcast, .name = "spread", .devices = {0, 1}, .elements = 9}};
  for (int i = 0; i < 2; ++i) {
    DeviceBuilder d(i, i, i + 1);
    const BufferId part = d.floats("part", {i + 1, 3}), whole = d.floats("whole", {3, 3}), sum = d.floats("sum", {2 - i, 3}),
                   given = d.floats("given", {3, 3});
    const StepId in = d.slice(0, part);
    const StepId gathered = d.exchange(0, {part}, {whole}, {in});
    d.exchange(1, {whole}, {sum}, {gathered});
    i == 0 ? d.exchange(2, {whole}, {}) : d.exchange(2, {}, {given});
    add_device(plan, d.done());
  }
  return plan;
}

// Two devices with 8 and 4 of 12 values swap pieces, so that they have 3 and 9, and the first gets the sum of three that each has.
// Buffers of each: 0 given, 1 got, 2 addend, 3 (of the first) sum. Exchanges: 0 all_to_all, 1 reduce.
Plan swapped() {
  Plan plan;
  plan.model = "swapped";
  plan.batch = 12;
  plan.inputs = {{"x", {DType::float32, {12, 1}}, true}};
  plan.exchanges = {{.kind = ExchangeKind::all_to_all, .name = "swap", .devices = {0, 1}, .elements = 12},
                    {.kind = ExchangeKind::reduce, .name = "collect", .devices = {0, 1}, .elements = 3}};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t gives = i == 0 ? 8 : 4, gets = i == 0 ? 3 : 9;
    DeviceBuilder d(i, i == 0 ? 0 : 8, gives);
    const BufferId given = d.floats("given", {gives, 1}), got = d.floats("got", {gets, 1}),
                   addend = d.alias("addend", got, {DType::float32, {3, 1}, Layout::row_major(2)});
    const StepId swap = d.exchange(0, {given}, {got}, {d.slice(0, given)});
    d.exchange(1, {addend}, i == 0 ? std::vector<BufferId>{d.floats("sum", {3, 1})} : std::vector<BufferId>{}, {swap});
    add_device(plan, d.done());
  }
  return plan;
}

// Devices 0 and 2 send x [1,3] to devices 1 and 3: each two a row of one exchange, and of two programs.
Plan pairs() {
  Plan plan;
  plan.model = "pairs";
  plan.batch = 2;
  plan.inputs = {{"x", {DType::float32, {2, 3}}, true}};
  plan.exchanges = {{.kind = ExchangeKind::send, .name = "over", .devices = {0, 1, 2, 3}, .rows = 2, .elements = 3}};
  for (int row = 0; row < 2; ++row) {
    DeviceBuilder giver(2 * row, row, 1), taker(2 * row + 1, row, 1);
    const BufferId x = giver.floats("x", {1, 3});
    giver.exchange(0, {x}, {}, {giver.slice(0, x)});
    taker.exchange(0, {}, {taker.floats("y", {1, 3})});
    if (row == 0) {
      add_device(plan, giver.done());
      add_device(plan, taker.done());
      continue;
    }
    for (const int program : {0, 1}) {
      plan.devices.push_back((program == 0 ? giver : taker).done().device);
      plan.devices.back().program = {program};
    }
  }
  return plan;
}

struct Row {
  std::string name;
  Plan (*plan)();
  std::function<void(Plan&)> change;
  std::string breach;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

Step& step(Plan& p, int device, int index) { return p.program_of(static_cast<std::size_t>(device)).steps[StepId{index}]; }
Buffer& buffer(Plan& p, int device, int index) { return p.program_of(static_cast<std::size_t>(device)).buffers[BufferId{index}]; }
void swap_steps(Plan& p, int device, int a, int b) { std::swap(step(p, device, a), step(p, device, b)); }
void live_throughout(Plan& p) {
  for (DeviceProgram& d : p.programs)
    for (Buffer& b : d.buffers) b.first = {0}, b.last = {static_cast<int>(d.steps.size()) - 1};
}

class BrokenExchange : public testing::TestWithParam<Row> {};
TEST_P(BrokenExchange, IsNamed) {
  expect_breach(GetParam().plan(), GetParam().change, GetParam().breach);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BrokenExchange,
    testing::Values(
        Row{"no_members", chain, [](Plan& p) { p.exchanges[0].devices.clear(); }, "fake:0: step 1 (send) enters 'there', of which fake:0 is no member"},
        Row{"member_twice", chain, [](Plan& p) { p.exchanges[0].devices = {0, 1, 1}; }, "exchange 0 'there' (send) is not among different devices of the plan's 3"},
        Row{"member_that_is_no_device", chain, [](Plan& p) { p.exchanges[0].devices = {0, 1, 3}; }, "exchange 0 'there' (send) is not among different devices"},
        Row{"send_to_several", parted, [](Plan& p) { p.exchanges[2].kind = ExchangeKind::send, p.exchanges[2].devices = {0, 1}, p.exchanges.push_back({.kind = ExchangeKind::send, .name = "more", .devices = {0}}); },
            "exchange 3 'more' (send) has 1 members, expected one that gives and one that gets"},
        Row{"gather_of_one", parted, [](Plan& p) { p.exchanges.push_back({.kind = ExchangeKind::all_gather, .name = "alone", .devices = {1}}); }, "exchange 3 'alone' (all_gather) has 1 members, expected two at least"},
        Row{"never_entered", chain, [](Plan& p) { p.program_of(2).steps.clear(); p.program_of(2).buffers.clear(); }, "exchange 1 'on' (send) is never entered by fake:2"},
        Row{"entered_by_none", chain, [](Plan& p) { p.exchanges.push_back({.name = "nobody", .devices = {0, 2}}); }, "exchange 3 'nobody' (all_reduce) is never entered by fake:2"},
        Row{"entered_twice", chain, [](Plan& p) { step(p, 1, 2) = step(p, 1, 1); }, "fake:1: step 2 (send) enters exchange 1 'on' (send) again, after step 1"},
        Row{"entered_by_a_stranger", chain, [](Plan& p) { step(p, 2, 0).as<ExchangeStep>()->exchange = {0}; }, "fake:2: step 0 (receive) enters 'there', of which fake:2 is no member"},
        Row{"sender_that_gets", chain, [](Plan& p) { step(p, 0, 1).outputs = {{1}}; }, "step 1 (send) has 1 inputs and 1 outputs, expected 1 and 0"},
        Row{"receiver_that_gives", chain, [](Plan& p) { std::swap(step(p, 2, 0).inputs, step(p, 2, 0).outputs); }, "step 0 (send) has 1 inputs and 0 outputs, expected 0 and 1"},
        Row{"receives_another_shape", chain, [](Plan& p) { buffer(p, 2, 0).operand = {DType::float32, {3, 2}, Layout("ab")}; }, "exchange 1 'on' (send): fake:2 has float32[3,2]:ab, another member float32[2,3]:ab"},
        Row{"receives_in_another_layout", chain, [](Plan& p) { buffer(p, 2, 0).operand.layout = Layout("ba"); }, "fake:2 has float32[2,3]:ba, another member float32[2,3]:ab"},
        Row{"receives_another_type", chain, [](Plan& p) { buffer(p, 2, 0).operand.dtype = DType::int32; }, "fake:2: step 0 (receive) exchanges 6 float32 values by buffer 0 'z' of int32[2,3]:ab"},
        Row{"receives_less", chain, [](Plan& p) { buffer(p, 2, 0).operand.shape = {1, 3}; }, "exchanges 6 float32 values by buffer 0 'z' of float32[1,3]:ab"},
        Row{"sent_before_it_is_there", chain, [](Plan& p) { step(p, 0, 1).waits.clear(); }, "fake:0: step 1 (send) reads buffer 0 'x' without waiting for step 0 (slice), which writes it"},
        Row{"sent_but_not_received", chain, [](Plan& p) { (swap_steps(p, 1, 0, 1), live_throughout(p)); }, "fake:1: step 0 (send) reads buffer 0 'y', which nothing wrote"},
        Row{"wait_for_each_other", chain, [](Plan& p) { swap_steps(p, 0, 1, 2); },
            "fake:0: step 1 (receive) waits in exchange 2 'back' (send) for fake:1, which waits in exchange 0 'there' (send)"},
        Row{"wait_in_a_circle", chain, [](Plan& p) { swap_steps(p, 0, 1, 2); }, "fake:2: step 0 (receive) waits in exchange 1 'on' (send) for fake:1, which waits in exchange 0 'there' (send)"},
        Row{"parts_that_are_less_than_the_whole", parted, [](Plan& p) { buffer(p, 1, 2).operand.shape = {0, 3}; }, "exchange 1 'scatter' (reduce_scatter): the parts have 2 of 3 along axis 0"},
        Row{"part_of_another_width", parted, [](Plan& p) { buffer(p, 1, 2).operand.shape = {1, 2}; }, "float32[1,2]:ab is no part of float32[3,3]:ab along the axis that is outermost in memory"},
        Row{"part_in_another_layout", parted, [](Plan& p) { buffer(p, 0, 2).operand.layout = Layout("ba"); }, "float32[2,3]:ba is no part of float32[3,3]:ab"},
        Row{"part_of_another_type", parted, [](Plan& p) { buffer(p, 0, 2).operand.dtype = DType::int32; }, "int32[2,3]:ab is no part of float32[3,3]:ab"},
        Row{"pieces_that_are_less_than_the_whole", swapped, [](Plan& p) { buffer(p, 1, 1).operand.shape = {8, 1}; }, "exchange 0 'swap' (all_to_all): members get 11 of 12 elements in 2 parts"},
        Row{"pieces_that_cannot_be", swapped, [](Plan& p) { (buffer(p, 0, 1).operand.shape = {2, 1}, buffer(p, 1, 1).operand.shape = {10, 1}); },
            "exchange 0 'swap' (all_to_all): who gives 8 has no piece for who gets 2 of 12 elements"},
        Row{"pieces_of_another_type", swapped, [](Plan& p) { buffer(p, 1, 1).operand.dtype = DType::int32; }, "exchange 0 'swap' (all_to_all): fake:1 has int32[9,1]:ab, expected float32 without blocks"},
        Row{"sum_for_who_gets_none", swapped, [](Plan& p) { step(p, 1, 2).outputs = {{2}}; }, "step 2 (reduce) has 1 inputs and 1 outputs, expected 1 and 0"},
        Row{"sum_of_less", swapped, [](Plan& p) { buffer(p, 1, 2).operand.shape = {2, 1}; }, "exchanges 3 float32 values by buffer 2 'addend' of float32[2,1]:ab"},
        Row{"no_rows", pairs, [](Plan& p) { p.exchanges[0].rows = 0; }, "exchange 0 'over' (send) has 4 members in 0 rows"},
        Row{"rows_of_unlike_lengths", pairs, [](Plan& p) { p.exchanges[0].rows = 3; }, "has 4 members in 3 rows"},
        Row{"one_row", pairs, [](Plan& p) { p.exchanges[0].rows = 1; }, "fake:0, fake:2: step 1 (send) enters 'over', in which fake:2 does not do what the others do"},
        Row{"gives_where_others_get", pairs, [](Plan& p) { p.exchanges[0].devices = {0, 1, 3, 2}; }, "in which fake:2 does not do what the others do"},
        Row{"no_member_of_its_row", pairs, [](Plan& p) { (p.exchanges[0].devices = {0, 1}, p.exchanges[0].rows = 1); }, "fake:0, fake:2: step 1 (send) enters 'over', of which fake:2 is no member"},
        Row{"part_at_another_place", parted, [](Plan& p) { (buffer(p, 1, 2).alias = {1}, buffer(p, 1, 2).offset = buffer(p, 1, 1).offset); }, "member 1's part shares memory with the whole, but not at its place there"}),
    [](const auto& info) { return info.param.name; });

// A wait across devices is one of exchanges alone: streams do not help where two devices enter two exchanges in opposite order.
TEST(VerifyExchanges, WantsOneOrderOnAllStreams) {
  Plan plan = linear_plan({1, 1});
  plan.exchanges.push_back({.name = "more", .devices = {0, 1}, .elements = 3});
  for (DeviceProgram& d : plan.programs) {
    Step more = d.steps[StepId{5}];
    more.what = ExchangeStep{{1}};
    d.steps.push_back(more);
    d.steps.back().waits = {{8}};
  }
  EXPECT_NO_THROW(verify(plan));
  std::swap(*plan.program_of(1).steps[StepId{5}].as<ExchangeStep>(), *plan.program_of(1).steps[StepId{9}].as<ExchangeStep>());
  try {
    verify(plan);
    ADD_FAILURE() << "passed";
  } catch (const Error& e) {
    EXPECT_NE(
        std::string(e.what()).find(
            "fake:0: step 5 (all_reduce) waits in exchange 0 'gradients 0' (all_reduce) for fake:1, which waits in exchange 1 'more'"),
        std::string::npos)
        << e.what();
  }
}

TEST(VerifyExchanges, AcceptsPiecesASumForOneAndRows) {
  for (const Plan& plan : {swapped(), pairs()}) {
    EXPECT_NO_THROW(verify(plan));
    EXPECT_EQ(serialize(parse_plan(serialize(plan))), serialize(plan));
  }
}

// Devices may differ in their exchanges and in their streams.
TEST(VerifyExchanges, AcceptsDevicesThatDiffer) {
  Plan plan = linear_plan({2, 1, 1});
  plan.exchanges[0].devices = {0, 2};
  DeviceProgram& alone = plan.programs[1];
  alone.steps[StepId{8}].waits.clear();
  alone.steps[StepId{5}] = alone.steps[StepId{4}];
  alone.buffers[BufferId{0}].last = alone.buffers[BufferId{5}].last = alone.buffers[BufferId{6}].last = {8};
  plan.program_of(2).steps[StepId{5}].stream = 0;
  EXPECT_NO_THROW(verify(plan));
}

}  // namespace
}  // namespace tandem::test
