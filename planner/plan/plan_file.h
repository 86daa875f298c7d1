// Plans as files (tandem_plan.proto) and as text.
#pragma once
#include <string>

#include "planner/plan/plan.h"

namespace tandem {

std::string serialize(const Plan& plan);           // the binary form; equal plans give equal bytes
Plan parse_plan(const std::string& bytes);         // fails (model) on anything that is not a whole plan
Plan read_plan(const std::string& path); // the same of a file; fails (io) where it cannot be read, naming it in each case
bool is_plan_file(const std::string& path);  // whether a regular file begins as plans do
std::string hash_of(const Plan& plan);             // 16 hex digits
// Of a plan, but for its made_from, and of what it was made from.
std::uint64_t fingerprint_of(const Plan& plan, std::string_view request);

std::string line_of_plan(const Plan& plan);  // parameters, batch, devices, memory, estimated step: one line, without its end
std::string text_of_plan(const Plan& plan, bool steps);  // for people; without steps: summary, memory, exchanges, warnings
std::string json_of(const Plan& plan);
std::string dot_of(const Plan& plan);              // Graphviz: the steps of each class of devices, of large plans their modules
std::string mermaid_of(const Plan& plan);          // the modules of each class of devices, and what passes between them
std::string svg_of(const Plan& plan);              // the same as a picture
std::string html_of(const Plan& plan);             // a page with pictures of placement, time and memory, and tables

}  // namespace tandem
