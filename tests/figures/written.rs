//! How a figure is written: so many digits, and a unit unless that stands elsewhere.

/// In ascending order, with their sizes.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
const SIZES: [(&str, f64); 4] =
    [("B", 1.0), ("KiB", 1024.0), ("MiB", 1024.0 * 1024.0), ("GiB", 1024.0 * 1024.0 * 1024.0)];

/// `2 digits`, or `2 digits of µs`.
pub(crate) struct Form {
    digits: usize,
    unit: Option<String>,
}

impl Form {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no way to write a figure");
        let (digits, rest) = text.split_once(' ').ok_or_else(wrong)?;
        let digits = digits.parse().ok().filter(|digits| (1..=9).contains(digits)).ok_or_else(wrong)?;
        let unit = match rest {
            "digits" | "digit" => None,
            _ => Some(rest.strip_prefix("digits of ").ok_or_else(wrong)?.to_owned()),
        };
        Ok(Self { digits, unit })
    }
}

pub(crate) fn figure(value: f64, unit: &str, form: &Form) -> Result<String, String> {
    let units: &[(&str, f64)] = match unit {
        "ns" => &TIMES,
        "bytes" => &SIZES,
        _ => &[],
    };
    if let Some(wanted) = &form.unit {
        let size = units.iter().find(|(name, _)| name == wanted).map(|(_, size)| *size);
        let size =
            size.or_else(|| (wanted == unit).then_some(1.0)).ok_or(format!("{unit} cannot be told in {wanted}"))?;
        return Ok(digits(value / size, form.digits));
    }
    // The largest in which it is at least 1 when rounded: 999.6 ns are 1.0 µs.
    let rounded =
        |size: &f64| digits(value / size, form.digits).replace(',', "").parse().is_ok_and(|it: f64| it >= 1.0);
    let chosen = units.iter().rev().find(|(_, size)| rounded(size)).or(units.first());
    Ok(match chosen {
        Some((name, size)) => format!("{} {name}", digits(value / size, form.digits)),
        None if unit == "×" => format!("{}×", digits(value, form.digits)),
        None => format!("{} {unit}", digits(value, form.digits)),
    })
}

/// Rounded to so many digits, with commas between thousands.
fn digits(value: f64, count: usize) -> String {
    // `1.72e3` has the digits, rounded, and the exponent.
    let scientific = format!("{value:.*e}", count - 1);
    let (rounded, exponent) = scientific.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    let decimals = usize::try_from(i32::try_from(count).unwrap() - 1 - exponent).unwrap_or(0);
    let rounded: f64 = format!("{rounded}e{exponent}").parse().unwrap();
    let plain = format!("{rounded:.decimals$}");
    let (whole, fraction) = plain.split_once('.').map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

#[test]
fn figures_are_rounded_and_have_the_unit_that_suits_them() {
    let written = |value, unit, form| figure(value, unit, &Form::parse(form).unwrap());
    for (value, unit, form, expected) in [
        (1723.4, "ns", "2 digits", "1.7 µs"),
        (999.6, "ns", "3 digits", "1.00 µs"),
        (999.4, "ns", "3 digits", "999 ns"),
        (137_186.0, "ns", "2 digits", "140 µs"),
        (0.1234, "ns", "2 digits", "0.12 ns"),
        (137_186.0, "ns", "4 digits of ns", "137,200"),
        (137_186.0, "ns", "4 digits of µs", "137.2"),
        (1.0042, "×", "5 digits", "1.0042×"),
        (1.0042, "×", "5 digits of ×", "1.0042"),
        (1536.0, "bytes", "2 digits", "1.5 KiB"),
        (24.0, "instructions", "2 digits", "24 instructions"),
    ] {
        assert_eq!(written(value, unit, form).as_deref(), Ok(expected), "{value} {unit}, {form}");
    }
    assert!(written(1.0, "ns", "2 digits of KiB").is_err());
    for wrong in ["", "digits", "0 digits", "2 digits in µs", "two digits"] {
        assert!(Form::parse(wrong).is_err(), "{wrong:?}");
    }
}
