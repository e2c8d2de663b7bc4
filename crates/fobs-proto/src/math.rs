//! Floating-point functions that give the same bits on every host.
//!
//! Those of `std` come from the platform's library, and the last bits differ between platforms; here all come
//! from `libm`. `+ - * /`, `sqrt`, `ceil`, `floor` and `round` are exact in IEEE 754 and need no such care.

/// e to the power of `x`.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// The natural logarithm.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The natural logarithm of 1 + `x`, exact near 0.
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// The logarithm to base 2.
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// The logarithm to base 10.
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// `x` to the power of `y`.
pub fn powf(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// `x` to the power of 3.
pub fn cube(x: f64) -> f64 {
    x * x * x
}

/// The cube root.
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// The length of the hypotenuse of a right triangle with sides `x` and `y`.
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits, not values: a function that changes them changes golden tables.
    #[test]
    fn results_are_the_same_on_every_host() {
        let values = [
            exp(1.25),
            ln(10.0),
            ln_1p(1e-3),
            log2(3.0),
            log10(7.0),
            powf(3.3, 0.835),
            cbrt(5.0),
            hypot(1.1, 2.3),
        ];
        assert_eq!(
            values.map(f64::to_bits),
            [
                4_615_041_972_421_327_600,
                4_612_367_379_483_415_830,
                4_562_252_204_610_436_799,
                4_609_816_855_700_290_920,
                4_605_787_185_981_475_903,
                4_613_284_653_661_526_004,
                4_610_379_866_208_912_596,
                4_612_923_404_395_360_246,
            ]
        );
    }
}
