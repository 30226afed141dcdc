//! Connections to other hosts. A name is resolved only once. Its addresses are checked, and
//! connections are opened only to checked addresses. The proxy of sandboxed commands and the tools
//! for the web use this module.

mod address;
mod buffered_stream;
mod connector;
mod destination;
mod upstream;

pub(crate) use address::AddressKind;
pub(crate) use buffered_stream::BufferedStream;
pub(crate) use connector::{ConnectError, Connector, NetworkFunctions};
#[cfg(feature = "web")]
pub(crate) use connector::{PlainHttpConnection, Route};
pub(crate) use destination::{Destination, canonical_ip_text, parse_host};
pub(crate) use upstream::UpstreamProxy;
