//! Client-visible output of calls: titles, redacted secrets, and calls of foreign tools.

mod sanitize;
mod titles;
mod wrapping;
