#include "engine/devices.h"

#include <gmock/gmock.h>

#include "engine/device_properties.h"

namespace paceline::engine {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(DevicesTest, TheCpuIsThereAndComputes) {
  const auto devices = list_devices();
  ASSERT_TRUE(devices) << devices.error().message();
  const auto cpu = std::find_if(devices->begin(), devices->end(),
                                [](const Device& device) { return device.id == "CPU"; });
  ASSERT_NE(cpu, devices->end());
  EXPECT_EQ(cpu->problem, "");
  EXPECT_NE(cpu->full_name, "");
  EXPECT_THAT(cpu->capabilities, Contains("FP32"));
}

TEST(DevicesTest, VersionAndIsaAreTold) {
  EXPECT_THAT(openvino_version(), HasSubstr("20"));
  EXPECT_NE(cpu_isa(), "");
  // OpenVINO computes in bf16 where the machine has it, and the ISA says so.
  ov::Core core;
  if (cpu_isa() == "avx512_core_bf16" || cpu_isa() == "avx512_core_amx") {
    EXPECT_EQ(inference_precision(core, Profile::kFast), ov::element::bf16);
  }
  EXPECT_EQ(inference_precision(core, Profile::kExact), ov::element::f32);
}

TEST(DevicePropertiesTest, ProfilesAreExplicit) {
  ov::Core core;
  const auto exact = cpu_properties(core, Profile::kExact, 0, 32);
  const auto fast = cpu_properties(core, Profile::kFast, 3, 32);
  const auto group = ov::hint::dynamic_quantization_group_size.name();
  EXPECT_EQ(exact.at(group).as<std::uint64_t>(), 0U);
  EXPECT_EQ(fast.at(group).as<std::uint64_t>(), 32U);
  EXPECT_EQ(cpu_properties(core, Profile::kFast, 0, 0).at(group).as<std::uint64_t>(), 128U);
  const auto kv = ov::hint::kv_cache_precision.name();
  EXPECT_EQ(exact.at(kv).as<ov::element::Type>(), ov::element::f32);
  EXPECT_EQ(fast.at(kv).as<ov::element::Type>(), ov::element::u8);
  EXPECT_EQ(fast.at("KEY_CACHE_QUANT_MODE").as<std::string>(), "BY_TOKEN");
  EXPECT_FALSE(exact.contains(ov::inference_num_threads.name())) << "the device's choice";
  EXPECT_EQ(fast.at(ov::inference_num_threads.name()).as<int>(), 3);
}

}  // namespace
}  // namespace paceline::engine
