// exp and log that give the same bits on every machine.
//
// The C library's differ in the last bit between versions and between processors (it chooses
// variants with fused multiply-add at run time), and a sampled token must not depend on where it
// was sampled. Sums, products and quotients of doubles are exact functions of IEEE 754; the folder
// is compiled with -ffp-contract=off. Accurate to about 2e-16 relative; not meant for the last half
// bit.
#pragma once

namespace paceline::sampling {

/// e^x for x <= 0 (finite or -inf). 0 below -700.
double exact_exp(double x);
/// ln(x) for a normal x > 0.
double exact_log(double x);
/// -ln(1 - v) for v in (0, 1), without loss for a small v.
double exact_minus_log1m(double v);

}  // namespace paceline::sampling
