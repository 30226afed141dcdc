//! Whole turns of the shipped binary with models over HTTP: a scripted server on loopback plays
//! replies in every dialect, both well-formed and faulty.

mod case;
mod context;
mod keys;
mod malformed_streams;
mod provider_requests;
mod refused_requests;
mod schema;
mod session;
mod tls;
mod well_formed_streams;
