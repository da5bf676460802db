// Sixteen floats at a time, in the compilers' own vectors. Included by quantize.cc once for each
// kind of CPU, inside of a namespace and under a pragma that says which: gcc lowers these vectors
// to what the CPU has before it inlines, so one body could not serve all. Hence no #pragma once, no
// includes and no std templates here, which would be compiled for one CPU and linked for all.

constexpr std::size_t kLanes = 16;
using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));
using Words = std::uint32_t __attribute__((vector_size(64)));
using Shorts = std::uint16_t __attribute__((vector_size(32)));
using Bytes = std::int8_t __attribute__((vector_size(16)));
using Half = float __attribute__((vector_size(32)));
using Quarter = float __attribute__((vector_size(16)));

inline Floats load(const float* data) {
  Floats vector;
  std::memcpy(&vector, data, sizeof(vector));
  return vector;
}
inline Shorts load_shorts(const void* data) {
  Shorts vector;
  std::memcpy(&vector, data, sizeof(vector));
  return vector;
}
/// Zeros where there are fewer than sixteen values left.
inline Floats load_some(const float* data, std::size_t count) {
  if (count >= kLanes) return load(data);
  Floats vector = {};
  std::memcpy(&vector, data, count * sizeof(float));
  return vector;
}
inline Floats all(float value) { return Floats{} + value; }
inline Floats largest(const Floats& a, const Floats& b) { return a > b ? a : b; }
inline Floats smallest(const Floats& a, const Floats& b) { return a < b ? a : b; }
inline Floats from_bits(const Words& bits) { return reinterpret_cast<const Floats&>(bits); }
inline Words to_bits(const Floats& value) { return reinterpret_cast<const Words&>(value); }
inline Floats magnitude(const Floats& a) { return from_bits(to_bits(a) & 0x7fffffffU); }

/// To the nearest integer, ties to even, for magnitudes up to 2^22: adding 1.5 * 2^23 leaves no
/// bits for a fraction.
inline Floats rounded(const Floats& a) { return (a + 0x1.8p23F) - 0x1.8p23F; }

inline Bytes to_bytes(const Floats& integers) {
  return __builtin_convertvector(__builtin_convertvector(integers, Ints), Bytes);
}

inline bool any(const Ints& flags) {
  std::int32_t joined = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) joined |= flags[lane];
  return joined != 0;
}

/// Across lanes, always in the same order.
inline float sum(const Floats& vector) {
  Half half[2];
  std::memcpy(half, &vector, sizeof(half));
  const Half pairs = half[0] + half[1];
  Quarter quarter[2];
  std::memcpy(quarter, &pairs, sizeof(quarter));
  const Quarter four = quarter[0] + quarter[1];
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float largest_lane(const Floats& vector) {
  float result = vector[0];
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    if (vector[lane] > result) result = vector[lane];
  }
  return result;
}

inline void store_quarter(const Quarter& vector, float* data) {
  std::memcpy(data, &vector, sizeof(vector));
}

/// Elements i ... i + 3 of four rows, transposed, to rows of kLanes.
inline void transpose(const float* const (&rows)[4], std::size_t i, float* target) {
  Quarter in[4];
  for (std::size_t row = 0; row < 4; ++row) std::memcpy(&in[row], rows[row] + i, sizeof(in[row]));
  const Quarter low01 = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
  const Quarter low23 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
  const Quarter high01 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
  const Quarter high23 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
  store_quarter(__builtin_shufflevector(low01, low23, 0, 1, 4, 5), target);
  store_quarter(__builtin_shufflevector(low01, low23, 2, 3, 6, 7), target + kLanes);
  store_quarter(__builtin_shufflevector(high01, high23, 0, 1, 4, 5), target + 2 * kLanes);
  store_quarter(__builtin_shufflevector(high01, high23, 2, 3, 6, 7), target + 3 * kLanes);
}

/// Sixteen vectors of sixteen bytes, transposed: four times the vectors i and i + 8 are interleaved
/// to 2i and 2i + 1.
inline void transpose(const Bytes* from, Bytes (&to)[kLanes]) {
  Bytes rows[2][kLanes];
  std::memcpy(rows[0], from, sizeof(rows[0]));
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const Bytes* const in = rows[stage % 2];
    Bytes* const out = stage == 3 ? to : rows[(stage + 1) % 2];
    for (std::size_t i = 0; i < kLanes / 2; ++i) {
      out[2 * i] = __builtin_shufflevector(in[i], in[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                           21, 6, 22, 7, 23);
      out[2 * i + 1] = __builtin_shufflevector(in[i], in[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                               28, 13, 29, 14, 30, 15, 31);
    }
  }
}
