// What the ways to print a plan share.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "planner/plan/plan.h"

namespace tandem {

// "Relu" for a launch, else its kind and what it reads, writes or exchanges: "slice x", "all_reduce bucket 0".
std::string label_of(const Plan& plan, const Step& step);
// What a step that is no launch reads, writes or exchanges; else empty.
std::string target_of(const Plan& plan, const Step& step);

// "cpu:0-3, cpu:6, cuda:0*2": numbers one after another as a range, those of one device's logical ones as how many.
std::string names_of(const std::vector<DeviceId>& devices);
std::string names_of(const Plan& plan, ProgramId program);  // of those that run it
// Those that take samples of a batch, and how many do not: "on 1 device (1 more has no samples)", "over 4 devices". Second: by their names.
std::string counted_devices(const Plan& plan);
std::string named_devices(const Plan& plan);

// The plan's JSON, as docs/plan-json.md has it: whole, or without what pictures do not need: attributes, cuts and parameters.
enum class PlanDetail { whole, pictures };
Json json_value_of(const Plan& plan, PlanDetail detail);

// A page with pictures of one plan, or of two side by side below what differs (print_diff.cpp's JSON). `summary`: for browsers without
// scripts, and for plans of too many steps.
std::string page_of(const std::string& title, const std::string& summary, std::span<const Plan* const> plans, const std::string& diff = "");

}  // namespace tandem
