//! A number of the configuration file that must not be 0.

use std::fmt;
use std::num::NonZeroU64;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// A whole number of at least 1. An error about another value explains this in plain words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PositiveNumber(NonZeroU64);

impl PositiveNumber {
    pub(crate) fn get(self) -> u64 {
        self.0.get()
    }
}

impl<'de> Deserialize<'de> for PositiveNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct PositiveNumberVisitor;

        impl Visitor<'_> for PositiveNumberVisitor {
            type Value = PositiveNumber;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a whole number of at least 1")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<PositiveNumber, E> {
                let positive = u64::try_from(number).ok().and_then(NonZeroU64::new);
                let positive = positive.map(PositiveNumber);
                positive.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<PositiveNumber, E> {
                let positive = NonZeroU64::new(number).map(PositiveNumber);
                positive.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }
        }

        from.deserialize_i64(PositiveNumberVisitor)
    }
}
