//! The natural logarithm, bit by bit as the reference computes it: the C library's differs in the last bit for one in a
//! hundred arguments, and scores are rounded.
//!
//! Source of the formula and its coefficients: FreeBSD's `msun/src/e_log.c`, which Go's `math.Log` follows.

const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
/// Coefficients of the polynomial in s², lowest first.
const COEFFICIENTS: [f64; 7] = [
    f64::from_bits(0x3fe5_5555_5555_5593),
    f64::from_bits(0x3fd9_9999_9997_fa04),
    f64::from_bits(0x3fd2_4924_9422_9359),
    f64::from_bits(0x3fcc_71c5_1d8e_78af),
    f64::from_bits(0x3fc7_4664_96cb_03de),
    f64::from_bits(0x3fc3_9a09_d078_c69f),
    f64::from_bits(0x3fc2_f112_df3e_5244),
];
const MANTISSA: u64 = (1 << 52) - 1;
const HALF: u64 = 0x3fe0_0000_0000_0000;

/// The natural logarithm of a finite number of at least 1.
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    // x = fraction · 2^exponent with the fraction between √½ and √2.
    let mut fraction = f64::from_bits(bits & MANTISSA | HALF);
    let mut exponent = f64::from(u16::try_from(bits >> 52 & 0x7ff).unwrap_or(0)) - 1022.0;
    if fraction < std::f64::consts::FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1.0;
    }
    let f = fraction - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let [l1, l2, l3, l4, l5, l6, l7] = COEFFICIENTS;
    let odd = s2 * (l1 + s4 * (l3 + s4 * (l5 + s4 * l7)));
    let even = s4 * (l2 + s4 * (l4 + s4 * l6));
    let rest = odd + even;
    let half_square = 0.5 * f * f;
    exponent * LN2_HIGH - ((half_square - (s * (half_square + rest) + exponent * LN2_LOW)) - f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bit_is_that_of_the_reference() {
        // math.Log of Go 1.26 on amd64.
        let table = [
            (2.0, 0x3fe6_2e42_fefa_39ef),
            (3.0, 0x3ff1_93ea_7aad_030a),
            (4.0, 0x3ff6_2e42_fefa_39ef),
            (5.0, 0x3ff9_c041_f7ed_8d33),
            (12.0, 0x4003_e116_bcd3_9e7d),
            (102.0, 0x4012_7ff8_df87_c7bd),
            (3.0, 0x3ff1_93ea_7aad_030a),
            (14.0, 0x4005_1cca_16d7_bba8),
            (48.0, 0x400e_f838_3c50_bb74),
            (74.0, 0x4011_375c_d6fc_ab1c),
            (176.0, 0x4014_ae93_5b3c_b89e),
            (196.0, 0x4015_1cca_16d7_bba8),
            (220.0, 0x4015_9313_1979_8d6e),
            (299.0, 0x4016_cd41_1481_a020),
            (308.0, 0x4016_eb9f_470a_c0b8),
            (334.0, 0x4017_3e9b_be95_1e9c),
            (343.0, 0x4017_59d6_02a5_c3c2),
            (346.0, 0x4017_62c0_d8a3_c1c4),
        ];
        for (x, bits) in table {
            assert_eq!(ln(x).to_bits(), bits, "ln {x}");
        }
        assert!((2..5000).all(|n| (ln(f64::from(n)) - f64::from(n).ln()).abs() < 1e-14));
    }
}
