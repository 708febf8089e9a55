//! The console: pages for operators and tenants, rendered here, below `/console` on the address of the admin plane.
//!
//! A page calls the operations of the API as any client does, for the key that its reader logged in with; so permissions, scope
//! filters, idempotency keys and audit apply, and nothing here reads or writes budgets by another way. Every page works without script.

mod assets;
mod format;
mod forms;
mod operations;
mod pages;
mod render;
mod session;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Redirect;
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::Value;

use self::operations::Refused;

use crate::api::Planes;
use crate::api::state::AppState;
use crate::api::trace::catch_panics;
use crate::telemetry::{Around, Next, Served};

/// What pages are made of: the operations, and the handles behind them.
struct Console {
    operations: Router,
    state: AppState,
    /// Parts of the overview of operators, as they were read last.
    attention: LastRead,
    spend: LastRead,
}

/// What was read last, and when: reading it again within seconds would cost much and show the same.
#[derive(Default)]
struct LastRead(Mutex<Option<(Instant, Value)>>);

impl LastRead {
    const AGE: Duration = Duration::from_secs(30);

    /// The last one, or what `read` finds. Without a value it is read again the next time.
    async fn or_read(
        &self,
        read: impl Future<Output = Result<Value, Refused>>,
    ) -> Result<Value, Refused> {
        if let Some((at, value)) = &*self.0.lock()
            && at.elapsed() < Self::AGE
        {
            return Ok(value.clone());
        }
        let value = read.await?;
        *self.0.lock() = Some((Instant::now(), value.clone()));
        Ok(value)
    }
}

/// Adds the console to the address of the admin plane.
pub fn added_to(mut planes: Planes) -> Planes {
    let console = router(Console {
        operations: planes.operations.clone(),
        state: Arc::clone(&planes.state),
        attention: LastRead::default(),
        spend: LastRead::default(),
    });
    match &mut planes.admin {
        Some(admin) => *admin = admin.clone().merge(console),
        None => planes.api = planes.api.merge(console),
    }
    planes
}

fn router(console: Console) -> Router {
    Router::new()
        .route("/console", get(pages::overview::show))
        .route("/console/", get(async || Redirect::permanent("/console")))
        .route("/console/spend", get(pages::spend::show))
        .route("/console/login", get(session::form).post(session::log_in))
        .route("/console/logout", post(session::log_out))
        .route("/console/tenants", get(pages::tenants::list))
        .route("/console/tenants/{tenant}", get(pages::tenants::show))
        .route("/console/budget", get(pages::budget::show))
        .route(
            "/console/budget/change",
            get(pages::change::preview).post(pages::change::carry_out),
        )
        .route("/console/denials", get(pages::denials::list))
        .route("/console/assets/{name}", get(assets::serve))
        .route("/console/usage", get(pages::usage::show))
        .route("/console/usage.csv", get(pages::usage::csv))
        .route(
            "/console/reservations/{id}",
            get(pages::reservation::show).post(pages::reservation::carry_out),
        )
        .route("/console/events/{id}", get(pages::events::show))
        .route(
            "/console/charges/{id}",
            get(pages::charges::show).post(pages::charges::refund),
        )
        .route("/console/evidence/{id}", get(pages::evidence::show))
        .route(
            "/console/keys/{id}",
            get(pages::keys::show).post(pages::keys::revoke),
        )
        .route(
            "/console/webhooks/{id}",
            get(pages::webhooks::show).post(pages::webhooks::carry_out),
        )
        .route(
            "/console/{*list}",
            get(pages::lists::show).post(pages::lists::create),
        )
        .with_state(Arc::new(console))
        .layer(Around((), protect))
}

/// Nothing is fetched from elsewhere, no page is framed, and no text on a page can become script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";

/// Sets the headers that every response of the console has.
async fn protect((): (), request: Request, next: Next) -> Served {
    let Ok(mut response) = catch_panics(async { Ok(next.run(request).await) }).await;
    let headers = response.headers_mut();
    let mut insert = |name: HeaderName, value: &'static str| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    insert(header::CONTENT_SECURITY_POLICY, POLICY);
    insert(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // `no-referrer` would make browsers send `Origin: null` with forms.
    insert(header::REFERRER_POLICY, "same-origin");
    insert(header::CACHE_CONTROL, "no-store");
    Ok(response)
}
