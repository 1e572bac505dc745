//! Calendar functions in UTC: `year`, `month`, `day_of_month`, … of each value as Unix seconds, or of the step's time.

use crate::error::Evaluated;
use crate::eval::{Column, Columns, Context, Grid};
use crate::plan::Expr;
use fabriclens_model::{CivilDate, Labels, is_stale};

const DAY: i64 = 86_400;

fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Splits Unix seconds into whole days and seconds of the day. Values outside a 64-bit integer (NaN, infinities)
/// become 2^63, as in Prometheus on amd64: the end of Go's time.
fn moment(seconds: f64) -> (i64, i64) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&seconds) {
        let whole = seconds as i64;
        return (whole.div_euclid(DAY), whole.rem_euclid(DAY));
    }
    let end = 1_u64 << 63;
    ((end / DAY as u64) as i64, (end % DAY as u64) as i64)
}

fn parts(cx: &mut Context<'_>, args: &[Expr], grid: Grid, f: fn(i64, i64) -> i64) -> Evaluated<Columns> {
    let of = |seconds| {
        let (days, second) = moment(seconds);
        f(days, second) as f64
    };
    let Some(arg) = args.first() else {
        let values = grid.times().map(|t| of(t.div_euclid(1000) as f64)).collect();
        return Ok(Columns::Vector(vec![Column::new(Labels::default(), values)]));
    };
    let mut columns = cx.vector(arg, grid)?;
    for c in &mut columns {
        cx.unname(c);
        c.histograms.clear_all();
        for v in c.values.iter_mut().filter(|v| !is_stale(**v)) {
            *v = of(*v);
        }
    }
    Ok(Columns::Vector(cx.settle(columns)?))
}

pub(super) fn minute(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |_, second| second % 3600 / 60)
}

pub(super) fn hour(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |_, second| second / 3600)
}

/// Sunday is 0; 1970-01-01 was a Thursday.
pub(super) fn day_of_week(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |days, _| (days + 4).rem_euclid(7))
}

pub(super) fn day_of_month(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |days, _| CivilDate::of(days).day)
}

pub(super) fn day_of_year(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |days, _| {
        let d = CivilDate::of(days);
        (1..d.month).map(|m| month_length(d.year, m)).sum::<i64>() + d.day
    })
}

pub(super) fn days_in_month(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |days, _| {
        let d = CivilDate::of(days);
        month_length(d.year, d.month)
    })
}

pub(super) fn month(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |days, _| CivilDate::of(days).month)
}

pub(super) fn year(cx: &mut Context<'_>, args: &[Expr], grid: Grid) -> Evaluated<Columns> {
    parts(cx, args, grid, |days, _| CivilDate::of(days).year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_before_the_epoch() {
        let ymd = |seconds: i64| {
            let d = CivilDate::of(moment(seconds as f64).0);
            (d.year, d.month, d.day)
        };
        assert_eq!(ymd(0), (1970, 1, 1));
        assert_eq!(ymd(-1), (1969, 12, 31));
        assert_eq!(ymd(951_782_400), (2000, 2, 29));
        assert_eq!(ymd(4_107_542_400), (2100, 3, 1));
        assert_eq!(CivilDate::of(moment(f64::NAN).0).year, 292_277_026_596);
        assert_eq!((month_length(2000, 2), month_length(2100, 2)), (29, 28));
    }
}
