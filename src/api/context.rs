//! What is known of a request before its handler.

use std::net::SocketAddr;

use super::operation::Operation;
use super::trace::correlation::Correlation;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;

/// Who makes a request that this process makes itself: the console, for the holder of a session. Nothing that is sent from outside
/// can set it. The scripts check an API key as ever.
#[derive(Clone)]
pub struct SignedIn(pub Caller);

/// What the connection and the layers around a route know of a request, for those below them. One extension, because each costs
/// allocations.
#[derive(Clone, Default)]
pub struct Context {
    /// The other end of the connection.
    pub peer: Option<SocketAddr>,
    /// The ids of the request.
    pub correlation: Option<Correlation>,
    /// The caller: an API key that a script has to check, or an admin key that was compared.
    pub caller: Option<Caller>,
    /// The caller and the request.
    pub cause: Option<Cause>,
    /// The operation that was called, for handlers of several.
    pub operation: Option<&'static Operation>,
}
