//! The stylesheet, the script and the icon. Their names hold a digest of their content, so browsers keep them for ever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

struct Asset {
    name: String,
    content_type: &'static str,
    content: &'static str,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let asset = |stem: &str, end: &str, content_type, content: &'static str| {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(content)[..9]);
        let name = format!("{stem}-{digest}.{end}");
        Asset {
            name,
            content_type,
            content,
        }
    };
    [
        asset(
            "console",
            "css",
            "text/css; charset=utf-8",
            include_str!("assets/console.css"),
        ),
        asset(
            "console",
            "js",
            "text/javascript; charset=utf-8",
            include_str!("assets/console.js"),
        ),
        asset(
            "icon",
            "svg",
            "image/svg+xml",
            include_str!("assets/icon.svg"),
        ),
    ]
});

/// The path of an asset, by its ending.
pub(super) fn path(end: &str) -> String {
    let found = ASSETS.iter().find(|asset| asset.name.ends_with(end));
    let name = found.map(|asset| asset.name.as_str());
    format!("/console/assets/{}", name.unwrap_or_default())
}

/// Serves one.
pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}
