//! Models that are wrong: each is refused in one line that says what, where
//! and what to do.

mod damage;
mod keys;
mod load;
mod tensors;
mod tokenizers;
mod wishes;

use katydid_tests::tiny::{Shape, Tiny};
use load::{OPTIONS, load, refused};

/// What is changed, how, and what the message must contain.
pub(crate) type Case = (&'static str, fn(&mut Tiny), &'static str);

/// A change of one number among the keys.
macro_rules! key {
    ($key:literal = $value:expr, $says:literal) => {
        (concat!($key, " = ", stringify!($value)), |m| _ = m.set($key, $value), $says)
    };
}
pub(crate) use key;

pub(crate) fn check_all(shape: &Shape, cases: &[Case]) {
    load(&Tiny::new(shape).bytes(), OPTIONS).expect("sound before it is changed");
    for (what, change, says) in cases {
        let mut model = Tiny::new(shape);
        change(&mut model);
        let message = refused(&model.bytes(), what);
        assert!(message.contains(says), "{what}: '{message}' lacks '{says}'");
    }
}
