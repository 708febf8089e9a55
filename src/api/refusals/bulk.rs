//! Refusals of bulk actions.

use axum::http::StatusCode;
use serde_json::json;

use crate::api::errors::{ApiError, Code};
use crate::domain::bulk::ROWS_MAX;
use crate::domain::refusal::BulkRefusal;

impl From<BulkRefusal> for ApiError {
    fn from(refusal: BulkRefusal) -> Self {
        use BulkRefusal as R;
        match refusal {
            R::TooManyMatched(total) => Self::new(
                StatusCode::BAD_REQUEST,
                Code::LimitExceeded,
                format!(
                    "Invalid filter: {total} rows match, and a bulk action has at most {ROWS_MAX}; narrow the filter"
                ),
            )
            .with_details(json!({"total_matched": total})),
            R::CountMismatch(total) => Self::conflict(
                Code::CountMismatch,
                format!("{total} rows match, another number than expected_count; nothing was changed"),
            )
            .with_details(json!({"total_matched": total})),
            R::InProgress => Self::unavailable("the bulk action is still on its way", 1),
        }
    }
}
