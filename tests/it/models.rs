//! Whole turns of the shipped binary with models behind HTTP: a scripted server on loopback plays
//! them in every dialect, both well-formed and with faults.

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
