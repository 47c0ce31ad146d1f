//! Sound models, asked for what they cannot do.

use katydid_core::model::{EvalError, Options};
use katydid_core::port::OneWorker;
use katydid_core::sample::Params;
use katydid_tests::tiny::{Shape, Tiny};
use katydid_tests::{kernels, with_engine};

use crate::load::{OPTIONS, load};

#[test]
fn options() {
    let model = Tiny::new(&Shape::LEAST).bytes();
    let says = |context, batch, what: &str| {
        let message = load(&model, Options { context, batch, drafts: 0 }).unwrap_err();
        assert!(message.contains(what) && !message.contains('\n'), "{message}");
    };
    says(0, 1, "the context (-c) is 0, but must be from 1 to");
    says(1 << 31, 1, "the context (-c) is 2147483648, but must be from 1 to 16777216");
    says(8, 0, "the batch (-b) is 0");
    says(8, usize::MAX, "the batch (-b) is");
}

#[test]
fn tokens_that_cannot_be_run() {
    let model = Tiny::new(&Shape::LEAST).bytes();
    with_engine(&model, OPTIONS, kernels(), |engine| {
        let mut eval = |ids: &[u32]| engine.eval(&OneWorker, ids, &mut |_| true).map_err(|e| e.to_string());
        assert_eq!(eval(&[]), Err(EvalError::NoTokens.to_string()));
        let message = eval(&[5, 264]).unwrap_err();
        assert_eq!(message, "token 264 (number 1 of those given) is not in the vocabulary of 264");
        assert!(eval(&[u32::MAX]).unwrap_err().contains("token 4294967295"));
        assert!(eval(&[5; 9]).unwrap_err().starts_with("9 tokens do not fit a context of 8"));
        assert_eq!(eval(&[263; 8]), Ok(()), "nothing refused was remembered");
        assert!(eval(&[5]).unwrap_err().starts_with("9 tokens do not fit"));
    });
}

/// Settings of a sampler are refused before a model is.
#[test]
fn sampling_settings() {
    let params = Params { temperature: f32::NAN, ..Params::default() };
    assert_eq!(params.check().unwrap_err().to_string(), "temperature is NaN; allowed: 0 to 100");
}
