//! What a client receives of calls: titles, no secrets, and the calls of foreign tools.

mod sanitize;
mod titles;
mod wrapping;
