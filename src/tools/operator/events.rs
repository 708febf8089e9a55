//! `admin event`.

use clap::Subcommand;

use super::console::Action;
use super::tail::Tail;
use crate::api::operations::OperationId;
use crate::tools::call::Call;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the latest events, the newest last; with --follow also new ones
    Tail(Tail),
    /// Show one event
    Show { event_id: String },
}

impl Command {
    pub fn action(self) -> Action {
        match self {
            Self::Tail(tail) => Action::Tail(tail),
            Self::Show { event_id } => Action::Show(Call::to(OperationId::GetEvent, event_id)),
        }
    }
}
