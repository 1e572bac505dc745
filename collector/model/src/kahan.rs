//! Compensated addition.

/// One step of Neumaier's compensated sum: returns the new sum and compensation.
pub fn kahan(value: f64, sum: f64, compensation: f64) -> (f64, f64) {
    let t = sum + value;
    if t.is_infinite() {
        return (t, 0.0);
    }
    let c = if sum.abs() >= value.abs() { (sum - t) + value } else { (value - t) + sum };
    (t, compensation + c)
}
