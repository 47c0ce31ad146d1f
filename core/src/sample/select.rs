//! Filters: which tokens stay, without sorting the vocabulary.
//!
//! Every filter keeps the first so many tokens of one total order: logit
//! descending, then id ascending. So the order of the filters matters only to
//! what they measure, and what is kept does not depend on how it was found.

use core::cmp::Ordering;

/// The order of tokens `a` and `b`, best first. Both have logits.
fn rank(logits: &[f32], a: u32, b: u32) -> Ordering {
    // Adding zero turns -0 into 0, which `total_cmp` would tell apart.
    let key = |id: u32| logits[id as usize] + 0.0;
    key(b).total_cmp(&key(a)).then(a.cmp(&b))
}

/// Moves the best `n` of `ids` to its front, unsorted.
fn split_best(ids: &mut [u32], logits: &[f32], n: usize) {
    if n < ids.len() {
        ids.select_nth_unstable_by(n, |&a, &b| rank(logits, a, b));
    }
}

/// A token's probability, as a multiple of that of a token with logit `max`.
///
/// `libm` on every target, in `f64`: the same bits everywhere.
pub(super) fn weight(logit: f32, max: f32, temperature: f32) -> f64 {
    if logit == max {
        // Also where both are infinite and have no difference.
        return 1.0;
    }
    libm::exp((f64::from(logit) - f64::from(max)) / f64::from(temperature))
}

/// The least logit that min-p keeps.
pub(super) fn floor(max: f32, min_p: f32) -> f64 {
    if min_p > 0.0 { f64::from(max) + libm::log(f64::from(min_p)) } else { f64::NEG_INFINITY }
}

/// Writes all tokens that are possible and not below `floor` to `ids`, in
/// order of id; returns how many. `ids` has room for every logit.
pub(super) fn possible(ids: &mut [u32], logits: &[f32], floor: f64) -> usize {
    let mut len = 0;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > f32::NEG_INFINITY && f64::from(logit) >= floor {
            ids[len] = id as u32;
            len += 1;
        }
    }
    len
}

/// Writes the best `k` possible tokens to `ids`, best first; returns how many.
/// `ids` has room for every logit; `k` is at least 1.
///
/// Collects twice as many as asked, then throws the worse half away, which
/// raises the bar for all that follow: the work is linear in the vocabulary.
pub(super) fn top_k(ids: &mut [u32], logits: &[f32], k: usize) -> usize {
    let k = k.min(ids.len());
    let room = k.saturating_mul(2).min(ids.len());
    let (mut len, mut bar) = (0, f32::NEG_INFINITY);
    for (id, &logit) in logits.iter().enumerate() {
        // Ids ascend, so one that only equals the bar ranks behind it.
        if logit > bar {
            if len == room {
                split_best(&mut ids[..len], logits, k - 1);
                (len, bar) = (k, logits[ids[k - 1] as usize]);
                if logit <= bar {
                    continue;
                }
            }
            ids[len] = id as u32;
            len += 1;
        }
    }
    let found = &mut ids[..len];
    split_best(found, logits, k);
    let kept = len.min(k);
    found[..kept].sort_unstable_by(|&a, &b| rank(logits, a, b));
    kept
}

/// Sorts the front of `ids`, best first, as far as the weights there (at
/// temperature 1) first sum to `share` of `total`; returns how many that are,
/// at least 1 of any.
///
/// Sorts a few, then four times as many, and so on: the usual nucleus of some
/// dozen tokens costs one pass and a short sort, the widest a full sort.
pub(super) fn top_p(ids: &mut [u32], logits: &[f32], max: f32, share: f32, total: f64) -> usize {
    let target = f64::from(share) * total;
    let (mut done, mut step, mut sum) = (0, 64usize, 0.0);
    while done < ids.len() {
        let end = done.saturating_add(step).min(ids.len());
        split_best(&mut ids[done..], logits, end - done);
        ids[done..end].sort_unstable_by(|&a, &b| rank(logits, a, b));
        for (i, &id) in ids.iter().enumerate().take(end).skip(done) {
            sum += weight(logits[id as usize], max, 1.0);
            if sum >= target {
                return i + 1;
            }
        }
        (done, step) = (end, step.saturating_mul(4));
    }
    ids.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// Every possible token, fully sorted.
    fn naive_order(logits: &[f32]) -> Vec<u32> {
        let mut ids: Vec<u32> =
            (0..logits.len() as u32).filter(|&i| logits[i as usize] > f32::NEG_INFINITY).collect();
        ids.sort_by(|&a, &b| logits[b as usize].partial_cmp(&logits[a as usize]).unwrap().then(a.cmp(&b)));
        ids
    }

    fn sum(ids: &[u32], logits: &[f32], max: f32) -> f64 {
        ids.iter().map(|&i| weight(logits[i as usize], max, 1.0)).sum()
    }

    /// Many ties, both zeros, both infinities.
    fn any_logits() -> impl Strategy<Value = Vec<f32>> {
        let one = prop_oneof![
            6 => (-8i32..8).prop_map(|x| x as f32 / 2.0),
            6 => -20.0f32..20.0,
            1 => Just(f32::NEG_INFINITY),
            1 => Just(-0.0f32),
        ];
        prop::collection::vec(one, 1..700)
    }

    proptest! {
        #[test]
        fn top_k_is_the_front_of_a_full_sort(logits in any_logits(), k in 1usize..800) {
            let mut ids = vec![0; logits.len()];
            let n = top_k(&mut ids, &logits, k);
            let want = naive_order(&logits);
            prop_assert_eq!(&ids[..n], &want[..k.min(want.len())]);
        }

        #[test]
        fn top_p_is_the_shortest_front_that_reaches_its_share(logits in any_logits(), share in 0.0f32..1.0) {
            let want = naive_order(&logits);
            prop_assume!(!want.is_empty());
            let max = logits[want[0] as usize];
            let mut ids = vec![0; logits.len()];
            let n = possible(&mut ids, &logits, f64::NEG_INFINITY);
            prop_assert_eq!(n, want.len());
            let total = sum(&ids[..n], &logits, max);
            let kept = top_p(&mut ids[..n], &logits, max, share, total);
            prop_assert!(kept >= 1);
            prop_assert_eq!(&ids[..kept], &want[..kept]);
            let target = f64::from(share) * total;
            prop_assert!(kept == 1 || sum(&want[..kept - 1], &logits, max) < target);
            prop_assert!(kept == want.len() || sum(&want[..kept], &logits, max) >= target);
        }

        #[test]
        fn min_p_keeps_what_is_likely_enough(logits in any_logits(), min_p in 0.001f32..1.0) {
            let Some(max) = logits.iter().copied().filter(|l| l.is_finite()).reduce(f32::max) else {
                return Ok(());
            };
            let mut ids = vec![0; logits.len()];
            let n = possible(&mut ids, &logits, floor(max, min_p));
            let kept = &ids[..n];
            for (id, &logit) in logits.iter().enumerate() {
                let ratio = f64::from(logit - max).exp() / f64::from(min_p);
                if (ratio - 1.0).abs() > 1e-5 {
                    prop_assert_eq!(kept.contains(&(id as u32)), ratio > 1.0);
                }
            }
        }
    }

    #[test]
    fn the_extremes_of_min_p() {
        let logits = [1.0, 2.0, f32::NEG_INFINITY, 2.0, 1.999];
        let mut ids = [0; 5];
        let n = possible(&mut ids, &logits, floor(2.0, 1.0));
        assert_eq!(ids[..n], [1, 3]);
        let n = possible(&mut ids, &logits, floor(2.0, 0.0));
        assert_eq!(ids[..n], [0, 1, 3, 4]);
        let hot = [1.0, f32::INFINITY, f32::MAX];
        for (min_p, want) in [(0.5, &[1][..]), (0.0, &[0, 1, 2])] {
            let n = possible(&mut ids, &hot, floor(f32::INFINITY, min_p));
            assert_eq!(&ids[..n], want);
        }
    }

    #[test]
    fn weights_of_the_infinite() {
        let inf = f32::INFINITY;
        assert_eq!(weight(inf, inf, 0.5), 1.0);
        assert_eq!(weight(3.0, inf, 0.5), 0.0);
        assert_eq!(weight(f32::MIN, f32::MAX, 1e-30), 0.0);
        assert_eq!(weight(1.0, 1.0, 1e-45), 1.0);
    }

    #[test]
    fn rising_and_falling_logits_of_a_large_vocabulary() {
        let n = 150_000;
        let rising: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let falling: Vec<f32> = (0..n).map(|i| -(i as f32)).collect();
        let mut ids = vec![0; n];
        assert_eq!(top_k(&mut ids, &rising, 3), 3);
        assert_eq!(ids[..3], [149_999, 149_998, 149_997]);
        assert_eq!(top_k(&mut ids, &falling, 3), 3);
        assert_eq!(ids[..3], [0, 1, 2]);
        let flat = vec![1.5; n];
        let all = possible(&mut ids, &flat, f64::NEG_INFINITY);
        assert_eq!(top_p(&mut ids[..all], &flat, 1.5, 0.5, n as f64), n / 2);
        assert!(ids[..n / 2].iter().enumerate().all(|(i, &id)| i as u32 == id));
    }
}
