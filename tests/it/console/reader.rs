//! Whoever reads the console: sends what a browser sends, and keeps its cookie.

use reqwest::{Client, Method, Response, StatusCode, header, redirect};
use url::form_urlencoded::Serializer;

use crate::harness::app::TestApp;
use crate::harness::http;

/// A browser without script.
pub struct Reader {
    client: Client,
    base: String,
    pub cookie: Option<String>,
}

/// A page, or another response.
pub struct Page {
    pub status: StatusCode,
    pub headers: header::HeaderMap,
    pub text: String,
}

impl Reader {
    /// Of the address of the admin plane.
    pub fn of(app: &TestApp) -> Self {
        let client = http::builder().redirect(redirect::Policy::none());
        Self {
            client: client.build().expect("a client"),
            base: format!("http://{}", app.admin_address.unwrap_or(app.address)),
            cookie: None,
        }
    }

    /// Somebody who has logged in.
    pub async fn with_key(app: &TestApp, key: &str) -> Self {
        let mut reader = Self::of(app);
        let page = reader.post("/console/login", &[("key", key)]).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.text);
        reader.cookie = Some(page.cookie());
        reader
    }

    pub async fn get(&self, path: &str) -> Page {
        self.send(Method::GET, path, &[], "same-origin").await
    }

    /// The page to which another one leads, if it does.
    pub async fn follow(&self, path: &str) -> Page {
        let page = self.get(path).await;
        match page.header(header::LOCATION) {
            "" => page,
            to => self.get(to).await,
        }
    }

    /// Follows a link on a page of some site.
    pub async fn get_from(&self, site: &str, path: &str) -> Page {
        self.send(Method::GET, path, &[], site).await
    }

    /// Sends a form from a page of the console.
    pub async fn post(&self, path: &str, form: &[(&str, &str)]) -> Page {
        self.post_from("same-origin", path, form).await
    }

    /// Sends a form from a page of some site.
    pub async fn post_from(&self, site: &str, path: &str, form: &[(&str, &str)]) -> Page {
        self.send(Method::POST, path, form, site).await
    }

    /// Fetches a page as a script does that shows a part of it.
    pub async fn part(&self, path: &str) -> Page {
        let url = format!("{}{path}", self.base);
        let request = self.client.get(url).header("hx-request", "true");
        Page::of(request.send().await.expect("a response")).await
    }

    async fn send(&self, method: Method, path: &str, form: &[(&str, &str)], site: &str) -> Page {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if !site.is_empty() {
            request = request.header("sec-fetch-site", site);
        }
        if !form.is_empty() {
            let body = Serializer::new(String::new()).extend_pairs(form).finish();
            let form = "application/x-www-form-urlencoded";
            request = request.header(header::CONTENT_TYPE, form).body(body);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        Page::of(request.send().await.expect("a response")).await
    }
}

impl Page {
    async fn of(response: Response) -> Self {
        Self {
            status: response.status(),
            headers: response.headers().clone(),
            // As a browser reads it; the other escapes matter to a test.
            text: response.text().await.expect("text").replace("&#x2f;", "/"),
        }
    }

    pub fn header(&self, name: header::HeaderName) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// Name and value of the cookie that it sets.
    pub fn cookie(&self) -> String {
        let cookie = self.header(header::SET_COOKIE);
        cookie.split(';').next().expect("it sets one").to_owned()
    }

    pub fn has(&self, text: &str) -> bool {
        self.text.contains(text)
    }

    /// The value of a hidden field.
    pub fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let (_, rest) = self.text.split_once(&start).expect("the field");
        rest.split('"').next().expect("its end").to_owned()
    }
}
