//! Whole turns of the built program with models over HTTP. A scripted server on the loopback
//! interface sends replies in every dialect, both well-formed and malformed.

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
