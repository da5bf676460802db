#include "engine/devices.h"

#include <cpuid.h>

#include <array>
#include <cmath>
#include <utility>

#include <openvino/core/version.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/result.hpp>
#include <openvino/runtime/core.hpp>

#include "cut/openvino_error.h"

namespace paceline::engine {
namespace {

/// [1, 2] x [[1, 2], [3, 4]], rows of the weights being outputs.
std::shared_ptr<ov::Model> tiny_model() {
  const auto input = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::Shape{1, 2});
  const auto weights =
      ov::op::v0::Constant::create(ov::element::f32, ov::Shape{2, 2}, {1.0F, 2.0F, 3.0F, 4.0F});
  const auto product = std::make_shared<ov::op::v0::MatMul>(input, weights, false, true);
  return std::make_shared<ov::Model>(
      ov::ResultVector{std::make_shared<ov::op::v0::Result>(product)}, ov::ParameterVector{input});
}

std::string try_device(ov::Core& core, const std::string& id) {
  std::string problem;
  const auto tried = cut::catch_openvino(id, [&] {
    auto request = core.compile_model(tiny_model(), id).create_infer_request();
    ov::Tensor input = request.get_input_tensor(0);
    input.data<float>()[0] = 1.0F;
    input.data<float>()[1] = 2.0F;
    request.infer();
    const float* output = request.get_output_tensor(0).data<float>();
    if (std::abs(output[0] - 5.0F) > 0.1F || std::abs(output[1] - 11.0F) > 0.1F) {
      problem = fmt::format("a test inference gave {}, {} instead of 5, 11", output[0], output[1]);
    }
  });
  return tried ? problem : tried.error().message();
}

Device describe(ov::Core& core, const std::string& id) {
  Device device;
  device.id = id;
  // Drivers may throw on any query: what they do not tell stays empty.
  if (auto name =
          cut::catch_openvino(id, [&] { return core.get_property(id, ov::device::full_name); })) {
    device.full_name = *std::move(name);
  }
  if (auto list = cut::catch_openvino(
          id, [&] { return core.get_property(id, ov::device::capabilities); })) {
    device.capabilities = *std::move(list);
  }
  device.problem = try_device(core, id);
  return device;
}

/// CPUID leaf 7, EDX bit 24: AMX-TILE, which the compiler's own query does not know.
bool has_amx() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24U & 1U) != 0;
}

}  // namespace

std::string openvino_version() { return ov::get_openvino_version().buildNumber; }

std::string cpu_isa() {
  const std::array<std::pair<bool, const char*>, 6> known = {{
      {has_amx(), "avx512_core_amx"},
      {__builtin_cpu_supports("avx512bf16") != 0, "avx512_core_bf16"},
      {__builtin_cpu_supports("avx512vnni") != 0, "avx512_core_vnni"},
      {__builtin_cpu_supports("avx512bw") != 0, "avx512_core"},
      {__builtin_cpu_supports("avx2") != 0, "avx2"},
      {true, "sse"},
  }};
  for (const auto& [is_supported, name] : known) {
    if (is_supported) return name;
  }
  return {};
}

Result<std::vector<Device>> list_devices() {
  return cut::catch_openvino("OpenVINO", [] {
    ov::Core core;
    std::vector<Device> devices;
    for (const std::string& id : core.get_available_devices()) {
      devices.push_back(describe(core, id));
    }
    return devices;
  });
}

}  // namespace paceline::engine
