//! Tests of the output of calls that clients see: titles, redacted secrets, and calls of foreign
//! tools.

mod sanitize;
mod titles;
mod wrapping;
