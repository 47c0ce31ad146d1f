//! The sampler: biases, penalties, filters, draw.

use super::constraint::Constraint;
use super::history::History;
use super::params::{ParamError, Params};
use super::rng::Pcg32;
use super::select::{floor, possible, top_k, top_p, weight};
use super::{SampleError, argmax};
use crate::arena::{ArenaFull, Space};
use crate::plan::Part;

/// A sampler's buffers, as [`lay_out`] took them.
pub struct Memory<'a> {
    candidates: &'a mut [u32],
    bias_ids: &'a mut [u32],
    bias_values: &'a mut [f32],
    ring: &'a mut [u32],
    sorted: &'a mut [u32],
}

/// Takes what a sampler needs for `n_vocab` logits, up to `n_bias` logit
/// biases and a `repeat_last_n` of up to `last_n`.
///
/// From a measuring space the buffers are empty, and [`Sampler::new`] refuses
/// them where a setting needs any.
pub fn lay_out<'a>(
    space: &mut impl Space<'a>,
    n_vocab: usize,
    n_bias: usize,
    last_n: usize,
) -> Result<Memory<'a>, ArenaFull> {
    Ok(Memory {
        candidates: space.take(Part::Scratch, "sampler candidates", n_vocab)?,
        bias_ids: space.take(Part::Scratch, "logit bias tokens", n_bias)?,
        bias_values: space.take(Part::Scratch, "logit biases", n_bias)?,
        ring: space.take(Part::Scratch, "recent tokens", last_n)?,
        sorted: space.take(Part::Scratch, "recent tokens, sorted", last_n)?,
    })
}

/// Chooses tokens.
///
/// After each token of the text, chosen here or given in the prompt, call
/// [`Sampler::accept`], so that the penalties know of it.
pub struct Sampler<'a> {
    params: Params,
    candidates: &'a mut [u32],
    bias_ids: &'a mut [u32],
    bias_values: &'a mut [f32],
    n_bias: usize,
    history: History<'a>,
    rng: Pcg32,
}

impl<'a> Sampler<'a> {
    /// A sampler over `memory` with these settings and logit biases: pairs of
    /// token and what to add to its logit, `-inf` to ban it.
    pub fn new(memory: Memory<'a>, params: &Params, bias: &[(u32, f32)]) -> Result<Self, ParamError> {
        let n = memory.candidates.len();
        if u32::try_from(n).is_err() {
            return Err(ParamError::Vocabulary { n });
        }
        let mut sampler = Self {
            params: *params,
            candidates: memory.candidates,
            bias_ids: memory.bias_ids,
            bias_values: memory.bias_values,
            n_bias: 0,
            history: History::new(memory.ring, memory.sorted),
            rng: Pcg32::new(params.seed),
        };
        sampler.restart(params, bias)?;
        Ok(sampler)
    }

    /// Begins a new text with these settings: no history, and the seed's first
    /// random number. On an error nothing has changed.
    pub fn restart(&mut self, params: &Params, bias: &[(u32, f32)]) -> Result<(), ParamError> {
        params.check()?;
        let (n_vocab, room) = (self.candidates.len(), self.history.room());
        if params.repeat_last_n > room {
            return Err(ParamError::Window { asked: params.repeat_last_n, room });
        }
        if bias.len() > self.bias_ids.len() {
            return Err(ParamError::Biases { asked: bias.len(), room: self.bias_ids.len() });
        }
        for &(id, value) in bias {
            if id as usize >= n_vocab {
                return Err(ParamError::BiasId { id, n_vocab });
            }
            if value.is_nan() || value == f32::INFINITY {
                return Err(ParamError::BiasValue { id, value });
            }
        }
        let slots = self.bias_ids.iter_mut().zip(self.bias_values.iter_mut());
        for (slot, &(id, value)) in slots.zip(bias) {
            (*slot.0, *slot.1) = (id, value);
        }
        self.params = *params;
        self.n_bias = bias.len();
        self.history.restart(params.repeat_last_n);
        self.rng = Pcg32::new(params.seed);
        Ok(())
    }

    /// The settings in force.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Forgets the text so far, and nothing else.
    pub fn forget(&mut self) {
        self.history.restart(self.params.repeat_last_n);
    }

    /// Records a token of the text. Ids outside the vocabulary are harmless.
    pub fn accept(&mut self, id: u32) {
        self.history.push(id);
    }

    /// Chooses a token. Takes one logit per vocabulary entry; a grammar's
    /// forbidden tokens are `-inf`. Biases and penalties are written into
    /// `logits`, so the same logits must not be given twice.
    ///
    /// Draws two random numbers, or none when the temperature is 0. An error
    /// draws none.
    pub fn sample(&mut self, logits: &mut [f32]) -> Result<u32, SampleError> {
        self.adjust(logits)?;
        self.choose(logits)
    }

    /// The same among the tokens that `constraint` allows, of which it is told
    /// nothing more: call [`Constraint::accept`] with the choice.
    ///
    /// Where the first choice is refused, another is made, and two more random
    /// numbers drawn.
    pub fn sample_within(
        &mut self,
        logits: &mut [f32],
        constraint: &mut dyn Constraint,
    ) -> Result<u32, SampleError> {
        self.adjust(logits)?;
        let free = self.choose(logits)?;
        if constraint.allows(free) {
            return Ok(free);
        }
        constraint.forbid(logits);
        self.choose(logits)
    }

    /// Chooses by logits as they are.
    fn choose(&mut self, logits: &[f32]) -> Result<u32, SampleError> {
        let best = argmax(logits)?;
        if self.params.temperature == 0.0 {
            return Ok(best);
        }
        let max = logits[best as usize];
        let kept = self.filter(logits, max);
        let temperature = self.params.temperature;
        let kept = &self.candidates[..kept];
        let weigh = |id: u32| weight(logits[id as usize], max, temperature);
        let total: f64 = kept.iter().fold(0.0, |sum, &id| sum + weigh(id));
        let target = self.rng.next_unit() * total;
        let mut sum = 0.0;
        for &id in kept {
            sum += weigh(id);
            if target < sum {
                return Ok(id);
            }
        }
        // Only if rounding lifted `target` to the whole sum. The likeliest
        // token is always among those kept.
        Ok(best)
    }

    /// Biases and penalties.
    fn adjust(&mut self, logits: &mut [f32]) -> Result<(), SampleError> {
        let (have, want) = (logits.len(), self.candidates.len());
        if have != want {
            return Err(SampleError::Length { have, want });
        }
        // Before anything could hide it: a banned NaN is still a broken model.
        if let Some(id) = logits.iter().position(|l| l.is_nan()) {
            return Err(SampleError::Nan { id: id as u32 });
        }
        for (&id, &value) in self.bias_ids.iter().zip(self.bias_values.iter()).take(self.n_bias) {
            if let Some(logit) = logits.get_mut(id as usize) {
                // Set, not added: plus and minus infinity have no sum.
                *logit = if value == f32::NEG_INFINITY { value } else { *logit + value };
            }
        }
        if self.params.penalizes() {
            self.history.penalize(&self.params, logits);
        }
        Ok(())
    }

    /// Puts the tokens that may be drawn at the front of the candidates;
    /// returns how many, at least 1.
    fn filter(&mut self, logits: &[f32], max: f32) -> usize {
        let Params { top_k: k, top_p: share, min_p, .. } = self.params;
        let floor = floor(max, min_p);
        let ids = &mut *self.candidates;
        if k > 0 && k < logits.len() {
            let mut kept = top_k(ids, logits, k);
            if share < 1.0 {
                let total =
                    ids[..kept].iter().fold(0.0, |sum, &id| sum + weight(logits[id as usize], max, 1.0));
                kept = top_p(&mut ids[..kept], logits, max, share, total);
            }
            return ids[..kept].partition_point(|&id| f64::from(logits[id as usize]) >= floor);
        }
        // Tokens below min-p's floor count in the total that top-p shares, but
        // need not be sorted: they rank behind all others.
        let kept = possible(ids, logits, floor);
        if share < 1.0 {
            let total = logits.iter().fold(0.0, |sum, &logit| sum + weight(logit, max, 1.0));
            return top_p(&mut ids[..kept], logits, max, share, total);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::plan::MemoryPlan;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::vec;
    use std::vec::Vec;

    const BAN: f32 = f32::NEG_INFINITY;

    /// Calls `test` with a sampler over memory of exactly the planned size.
    fn with<R>(n: usize, params: &Params, bias: &[(u32, f32)], test: impl FnOnce(Sampler) -> R) -> R {
        let mut plan = MemoryPlan::new();
        lay_out(&mut plan, n, bias.len(), params.repeat_last_n).map(drop).unwrap();
        let need = plan.total() as usize;
        let mut bytes = vec![0xA5; need + crate::arena::ALIGN];
        let mut arena = Arena::new(&mut bytes);
        let memory = lay_out(&mut arena, n, bias.len(), params.repeat_last_n).unwrap();
        assert_eq!(arena.used(), need);
        test(Sampler::new(memory, params, bias).unwrap())
    }

    /// Nothing but a draw.
    fn plain(seed: u64) -> Params {
        Params { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, ..Params::default() }
    }

    fn draws(params: &Params, logits: &[f32], n: usize) -> Vec<u32> {
        with(logits.len(), params, &[], |mut s| {
            (0..n).map(|_| s.sample(&mut logits.to_vec()).unwrap()).collect()
        })
    }

    /// Made of integers, so that no library's rounding is in the test's input.
    fn bumpy(n: usize) -> Vec<f32> {
        let mut x = 12345u32;
        (0..n)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (x >> 16) as f32 / 4096.0 - 8.0
            })
            .collect()
    }

    /// What the documentation says, by a full sort and plain loops.
    fn naive_allowed(params: &Params, logits: &[f32]) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..logits.len() as u32).filter(|&i| logits[i as usize] > BAN).collect();
        let logit = |i: u32| logits[i as usize];
        ids.sort_by(|&a, &b| logit(b).partial_cmp(&logit(a)).unwrap().then(a.cmp(&b)));
        let max = logit(ids[0]);
        if params.temperature == 0.0 {
            return vec![ids[0]];
        }
        if params.top_k > 0 {
            ids.truncate(params.top_k);
        }
        let p = |i: u32| if logit(i) == max { 1.0 } else { (f64::from(logit(i)) - f64::from(max)).exp() };
        let total: f64 = ids.iter().map(|&i| p(i)).sum();
        let (mut kept, mut sum) = (0, 0.0);
        while kept < ids.len() && (kept == 0 || sum < f64::from(params.top_p) * total || params.top_p == 1.0)
        {
            sum += p(ids[kept]);
            kept += 1;
        }
        ids.truncate(kept);
        ids.retain(|&i| p(i) >= f64::from(params.min_p));
        ids
    }

    #[test]
    fn golden_draws() {
        let logits = bumpy(300);
        assert_eq!(
            draws(&Params { seed: 42, ..Params::default() }, &logits, 12),
            [19, 142, 203, 203, 111, 198, 244, 198, 19, 276, 17, 218]
        );
        assert_eq!(draws(&plain(42), &logits, 12), [148, 203, 211, 211, 244, 35, 266, 29, 165, 218, 134, 61]);
        let wide = Params { temperature: 1.5, top_p: 0.99, ..plain(7) };
        assert_eq!(draws(&wide, &logits, 12), [244, 198, 274, 295, 85, 20, 271, 142, 215, 40, 256, 134]);
    }

    #[test]
    fn one_seed_one_text_and_restart_begins_it_again() {
        let params = Params { repeat_penalty: 1.3, seed: 5, ..Params::default() };
        with(300, &params, &[], |mut s| {
            let text = |s: &mut Sampler| -> Vec<u32> {
                let step = |s: &mut Sampler| {
                    let id = s.sample(&mut bumpy(300)).unwrap();
                    s.accept(id);
                    id
                };
                (0..50).map(|_| step(s)).collect()
            };
            let first = text(&mut s);
            s.restart(&params, &[]).unwrap();
            assert_eq!(text(&mut s), first);
            s.restart(&Params { seed: 6, ..params }, &[]).unwrap();
            assert_ne!(text(&mut s), first);
        });
    }

    /// Pearson's statistic of `n` draws against the probabilities wanted.
    fn chi_square(params: &Params, logits: &[f32], n: usize) -> f64 {
        let kept = naive_allowed(params, logits);
        let weights: Vec<f64> =
            kept.iter().map(|&i| f64::from(logits[i as usize] / params.temperature).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut counts = vec![0usize; logits.len()];
        for id in draws(params, logits, n) {
            counts[id as usize] += 1;
        }
        assert_eq!(kept.iter().map(|&i| counts[i as usize]).sum::<usize>(), n, "a token outside the filters");
        kept.iter()
            .zip(&weights)
            .map(|(&id, w)| {
                let want = w / total * n as f64;
                (counts[id as usize] as f64 - want).powi(2) / want
            })
            .sum()
    }

    #[test]
    fn draws_follow_the_distribution() {
        let logits: Vec<f32> = (0..16).map(|i| ((i * 7) % 16) as f32 * 0.2).collect();
        for seed in 0..4 {
            let base = plain(seed);
            // 15 degrees of freedom or fewer: above 37.7 once in a thousand.
            for params in [
                base,
                Params { temperature: 0.5, ..base },
                Params { temperature: 3.0, ..base },
                Params { top_k: 5, ..base },
                Params { top_p: 0.7, ..base },
                Params { min_p: 0.2, temperature: 0.8, ..base },
                Params { top_k: 12, top_p: 0.9, min_p: 0.15, temperature: 1.3, ..base },
            ] {
                let chi = chi_square(&params, &logits, 40_000);
                assert!(chi < 37.7, "{chi} for {params:?}");
            }
        }
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let p = || prop_oneof![Just(1.0f32), Just(0.0f32), 0.0f32..1.0];
        let t = prop_oneof![Just(0.0f32), Just(1e-40f32), Just(100.0f32), 0.1f32..3.0];
        let k = prop_oneof![Just(0usize), 1usize..10, 1usize..400];
        (t, k, p(), p(), any::<u64>()).prop_map(|(temperature, top_k, top_p, min_p, seed)| Params {
            temperature,
            top_k,
            top_p,
            min_p,
            seed,
            ..Params::default()
        })
    }

    fn any_logits() -> impl Strategy<Value = Vec<f32>> {
        let one = prop_oneof![
            8 => (-12i32..12).prop_map(|x| x as f32 / 3.0),
            8 => -30.0f32..30.0,
            1 => Just(BAN),
        ];
        prop::collection::vec(one, 1..300)
    }

    proptest! {
        #[test]
        fn the_filters_keep_what_the_naive_reference_keeps(params in any_params(), logits in any_logits()) {
            prop_assume!(logits.iter().any(|&l| l > BAN));
            let want: HashSet<u32> = naive_allowed(&params, &logits).into_iter().collect();
            with(logits.len(), &params, &[], |mut s| {
                let max = logits.iter().copied().fold(BAN, f32::max);
                if params.temperature > 0.0 {
                    let n = s.filter(&logits, max);
                    let kept: HashSet<u32> = s.candidates[..n].iter().copied().collect();
                    prop_assert_eq!(kept.len(), n);
                    prop_assert_eq!(&kept, &want);
                }
                for _ in 0..5 {
                    let id = s.sample(&mut logits.clone()).unwrap();
                    prop_assert!(want.contains(&id));
                }
                Ok(())
            })?;
        }

        #[test]
        fn any_bits_give_an_id_in_range_or_an_error(
            bits in prop::collection::vec(prop_oneof![any::<u32>(), Just(0x7f80_0000), Just(0xff80_0000)], 0..60),
            params in any_params(),
            bias in prop::collection::vec((0u32..60, prop_oneof![Just(BAN), Just(f32::MAX), -9.0f32..9.0]), 0..5),
        ) {
            let logits: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            let n = logits.len();
            let bias: Vec<_> = bias.into_iter().filter(|b| (b.0 as usize) < n).collect();
            let params = Params { repeat_penalty: 0.01, frequency_penalty: -100.0, ..params };
            with(n, &params, &bias, |mut s| {
                for _ in 0..4 {
                    match s.sample(&mut logits.clone()) {
                        Ok(id) => {
                            prop_assert!((id as usize) < n && logits[id as usize] > BAN);
                            prop_assert!(!bias.iter().any(|b| b.0 == id && b.1 == BAN));
                            s.accept(id);
                        }
                        Err(SampleError::Nan { id }) => prop_assert!(logits[id as usize].is_nan()),
                        Err(SampleError::NoCandidate) => {
                            let open = |(i, &l): (usize, &f32)| l > BAN && !bias.contains(&(i as u32, BAN));
                            // Biases and penalties can push a finite logit to -inf only from the edge.
                            prop_assert!(!logits.iter().enumerate().filter(|x| x.1.abs() < 1e30).any(open));
                        }
                        Err(err) => prop_assert!(false, "{err}"),
                    }
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn infinite_and_banned_logits() {
        let inf = f32::INFINITY;
        // Infinitely likely tokens share the draws; the rest get none.
        let seen: HashSet<u32> = draws(&plain(1), &[5.0, inf, BAN, inf], 100).into_iter().collect();
        assert_eq!(seen, HashSet::from([1, 3]));
        for params in [plain(1), Params::default(), Params::greedy()] {
            with(3, &params, &[(1, BAN), (0, 2.0)], |mut s| {
                assert_eq!(s.sample(&mut [BAN, inf, BAN]), Err(SampleError::NoCandidate));
                assert_eq!(s.sample(&mut [BAN, inf, -9.0]), Ok(2));
                assert_eq!(s.sample(&mut [0.0, f32::NAN, 0.0]), Err(SampleError::Nan { id: 1 }));
                assert_eq!(s.sample(&mut [0.0; 4]), Err(SampleError::Length { have: 4, want: 3 }));
            });
        }
        with(0, &plain(1), &[], |mut s| assert_eq!(s.sample(&mut []), Err(SampleError::NoCandidate)));
    }

    #[test]
    fn biases_and_penalties_steer_the_choice() {
        let params = Params { presence_penalty: 3.0, repeat_last_n: 2, ..Params::greedy() };
        with(4, &params, &[(3, 2.5)], |mut s| {
            let mut next = || {
                let id = s.sample(&mut [2.0, 1.0, 0.0, 0.0]).unwrap();
                s.accept(id);
                id
            };
            // 3 leads by its bias; then 0, then 1 as both are penalised; then
            // 3 has left the window.
            assert_eq!([next(), next(), next(), next()], [3, 0, 1, 3]);
        });
    }

    #[test]
    fn refuses_settings_by_name_and_stays_as_it_was() {
        let params = Params { repeat_last_n: 8, ..Params::greedy() };
        with(4, &params, &[(2, 9.0)], |mut s| {
            let cases = [
                (s.restart(&Params { min_p: -1.0, ..params }, &[]), "min_p"),
                (s.restart(&Params { repeat_last_n: 9, ..params }, &[]), "repeat_last_n"),
                (s.restart(&params, &[(0, 1.0), (1, 1.0)]), "biases"),
                (s.restart(&params, &[(4, 1.0)]), "token 4"),
                (s.restart(&params, &[(0, f32::NAN)]), "token 0"),
                (s.restart(&params, &[(0, f32::INFINITY)]), "token 0"),
            ];
            for (result, names) in cases {
                let text = std::format!("{}", result.unwrap_err());
                assert!(text.contains(names), "{text}");
            }
            assert_eq!(s.sample(&mut [0.0, 1.0, 0.0, 0.0]), Ok(2));
            s.restart(&params, &[]).unwrap();
            assert_eq!(s.sample(&mut [0.0, 1.0, 0.0, 0.0]), Ok(1));
        });
        let mut plan = MemoryPlan::new();
        let measured = lay_out(&mut plan, 10, 0, 64).unwrap();
        assert!(Sampler::new(measured, &Params::default(), &[]).is_err());
    }

    /// Prints what a token costs; asserts nothing, as the machine may be busy.
    #[test]
    fn cost_at_150_000_tokens() {
        let logits = bumpy(150_000);
        for (name, params) in [
            ("greedy", Params::greedy()),
            ("default", Params::default()),
            ("top-p only", Params { top_p: 0.95, ..plain(1) }),
            ("nothing", plain(1)),
        ] {
            with(logits.len(), &params, &[], |mut s| {
                let mut copy = logits.clone();
                let start = std::time::Instant::now();
                (0..20).for_each(|_| _ = s.sample(&mut copy));
                std::println!("{name}: {:?} a token", start.elapsed() / 20);
            });
        }
    }
}
