//! The stylesheet, the scripts and the icon. Their names hold a digest of their content, so browsers keep them for ever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

pub(super) struct Asset {
    /// What templates call its path.
    pub name: &'static str,
    /// The last segment of its path.
    file: String,
    content_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn of(
        name: &'static str,
        end: &str,
        content_type: &'static str,
        content: &'static str,
    ) -> Self {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(content)[..9]);
        Self {
            name,
            file: format!("{name}-{digest}.{end}"),
            content_type,
            content,
        }
    }

    /// Its path.
    pub fn path(&self) -> String {
        format!("/console/assets/{}", self.file)
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// `htmx` is htmx 2.0.11 as npm has it (0BSD), for pages that follow what happens.
pub(super) static ASSETS: LazyLock<[Asset; 4]> = LazyLock::new(|| {
    let style = "text/css; charset=utf-8";
    [
        Asset::of("style", "css", style, include_str!("assets/console.css")),
        Asset::of("script", "js", SCRIPT, include_str!("assets/console.js")),
        Asset::of("htmx", "js", SCRIPT, include_str!("assets/htmx.js")),
        Asset::of(
            "icon",
            "svg",
            "image/svg+xml",
            include_str!("assets/icon.svg"),
        ),
    ]
});

/// Serves one.
pub(super) async fn serve(Path(file): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.file == file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn htmx_is_the_published_file() {
        let digest = Sha256::digest(include_str!("assets/htmx.js"));
        let digest = crate::domain::ids::hex(&digest);
        assert_eq!(
            digest,
            "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
        );
    }
}
