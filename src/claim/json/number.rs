//! Numbers compared as exact decimals, from their literals, in time linear in their length. An
//! exponent is never evaluated, so `1e999999999` costs no more than its eleven characters.

/// A number literal as 0.D × 10^(exponent + shift), where D are its significant digits.
struct Decimal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Zeros before the first significant digit of `whole` and `fraction` together.
    leading: usize,
    /// Digits from the first to the last that is not zero; 0 for zero itself.
    significant: usize,
    exponent: Exponent<'a>,
}

struct Exponent<'a> {
    /// -1 or 1.
    sign: i64,
    digits: &'a [u8],
    /// Added to the literal's exponent: how many digits stand before the point.
    shift: i64,
}

/// Whether two JSON number literals are the same number.
pub(super) fn same_number(a: &str, b: &str) -> bool {
    let (a, b) = (Decimal::read(a), Decimal::read(b));
    if a.significant == 0 || b.significant == 0 {
        return a.significant == b.significant;
    }
    a.negative == b.negative && a.digits().eq(b.digits()) && a.exponent.same(&b.exponent)
}

impl<'a> Decimal<'a> {
    /// Reads a literal that the scan accepted.
    fn read(literal: &'a str) -> Self {
        let (negative, rest) = match literal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, ""));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (sign, digits) = match power.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, power.strip_prefix('+').unwrap_or(power)),
        };
        let (whole, fraction) = (whole.as_bytes(), fraction.as_bytes());
        let is_zero = |digit: &&u8| **digit == b'0';
        let leading = whole.iter().chain(fraction).take_while(is_zero).count();
        let trailing = fraction.iter().rev().chain(whole.iter().rev()).take_while(is_zero).count();
        let significant = (whole.len() + fraction.len()).saturating_sub(leading + trailing);
        // Both lengths are at most MAX_BYTES, so neither sum nor difference leaves an i64.
        let shift = whole.len() as i64 - leading as i64;
        let exponent = Exponent { sign, digits: digits.as_bytes(), shift };
        Self { negative, whole, fraction, leading, significant, exponent }
    }

    fn digits(&self) -> impl Iterator<Item = &u8> {
        self.whole.iter().chain(self.fraction).skip(self.leading).take(self.significant)
    }
}

impl Exponent<'_> {
    /// Whether both sums are equal: their difference, taken digit by digit from the lowest with
    /// the shifts as the first carry, must be zero at every place.
    fn same(&self, other: &Self) -> bool {
        let mut carry = self.shift - other.shift;
        let places = self.digits.len().max(other.digits.len());
        for place in 0..places {
            carry += self.digit(place) - other.digit(place);
            if carry % 10 != 0 {
                return false;
            }
            carry /= 10;
        }
        carry == 0
    }

    /// The digit at a place, counted from the lowest, with the sign of the whole.
    fn digit(&self, place: usize) -> i64 {
        self.digits.iter().rev().nth(place).map_or(0, |digit| self.sign * i64::from(digit - b'0'))
    }
}
