//! The built-in tools by what is seen of their calls.

mod changes;
mod looks;
mod outdated;
