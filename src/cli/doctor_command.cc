// paceline doctor: what this machine has for serving, and what is missing.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/version.h"
#include "cli/command.h"
#include "cli/report.h"
#include "engine/devices.h"
#include "system/memory.h"

namespace paceline::cli {
namespace {

struct Finding {
  std::string device;
  std::string advice;
};

/// What a user may want to install or know, for devices that are not there or do not compute.
std::vector<Finding> missing(const std::vector<engine::Device>& devices) {
  std::vector<Finding> findings;
  const auto has = [&](std::string_view prefix) {
    for (const engine::Device& device : devices) {
      if (device.id.starts_with(prefix)) return true;
    }
    return false;
  };
  if (!has("CPU"))
    findings.push_back({"CPU", "OpenVINO found no CPU plugin; reinstall with scripts/setup"});
  if (!has("GPU")) {
    findings.push_back({"GPU",
                        "none found; for an Intel GPU install its OpenCL driver "
                        "(intel-opencl-icd) and join the group render"});
  }
  if (!has("NPU")) {
    findings.push_back(
        {"NPU", "none found; for an Intel NPU install its driver (intel-npu-driver)"});
  }
  for (const engine::Device& device : devices) {
    if (!device.problem.empty()) findings.push_back({device.id, device.problem});
  }
  return findings;
}

nlohmann::json to_json(const std::vector<engine::Device>& devices,
                       const system::MachineMemory& memory) {
  nlohmann::json json = {{"paceline", kVersion},
                         {"openvino", engine::openvino_version()},
                         {"isa", engine::cpu_isa()},
                         {"threads", std::thread::hardware_concurrency()},
                         {"memory_total_bytes", memory.total_bytes},
                         {"memory_available_bytes", memory.available_bytes},
                         {"devices", nlohmann::json::array()},
                         {"missing", nlohmann::json::array()}};
  for (const engine::Device& device : devices) {
    json["devices"].push_back({{"id", device.id},
                               {"name", device.full_name},
                               {"capabilities", device.capabilities},
                               {"works", device.problem.empty()}});
  }
  for (const Finding& finding : missing(devices)) {
    json["missing"].push_back({{"device", finding.device}, {"advice", finding.advice}});
  }
  return json;
}

Status examine(bool as_json) {
  PACELINE_ASSIGN_OR_RETURN(const auto devices, engine::list_devices());
  PACELINE_ASSIGN_OR_RETURN(const auto memory, system::machine_memory());
  if (as_json) {
    fmt::print("{}\n", to_json(devices, memory).dump(2));
    return {};
  }
  fmt::print("paceline   {}\nOpenVINO   {}\nmemory     {} free of {}\nCPU        {}, {} threads\n",
             kVersion, engine::openvino_version(), human_bytes(memory.available_bytes),
             human_bytes(memory.total_bytes), engine::cpu_isa(),
             std::thread::hardware_concurrency());
  for (const engine::Device& device : devices) {
    fmt::print("device     {}: {} ({})\n", device.id, device.full_name,
               device.problem.empty() ? "computes" : "DOES NOT COMPUTE");
  }
  for (const Finding& finding : missing(devices)) {
    fmt::print("missing    {}: {}\n", finding.device, finding.advice);
  }
  return {};
}

}  // namespace

void add_doctor_command(CLI::App& app, Status& done) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "Show this machine's devices and memory, and what is missing");
  command->add_flag("--json", *as_json, "As JSON");
  command->callback([as_json, &done] { done = examine(*as_json); });
}

}  // namespace paceline::cli
