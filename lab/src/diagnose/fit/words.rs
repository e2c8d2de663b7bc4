//! Numbers with a given count of significant digits, as C's `%g` writes them.

/// `value` with `digits` significant digits: as a decimal without trailing zeros, or, far from 1, with an
/// exponent.
pub fn significant(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent >= -4 && exponent < digits as i32 {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        return trimmed(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_does() {
        for (value, digits, text) in [
            (0.421_572, 4, "0.4216"),
            (4.100_463, 4, "4.1"),
            (-178.329_432, 4, "-178.3"),
            (118.7, 2, "1.2e+02"),
            (0.9, 2, "0.9"),
            (1.6e-7, 2, "1.6e-07"),
            (0.000_23, 2, "0.00023"),
            (0.000_034, 2, "3.4e-05"),
            (9.996, 3, "10"),
            (0.0, 2, "0"),
        ] {
            assert_eq!(significant(value, digits), text);
        }
    }
}
