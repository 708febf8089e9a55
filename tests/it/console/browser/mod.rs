//! The console in a real browser: Chromium without a window.

mod changes;
mod demo;
mod driver;
mod every_page;
mod origins;
mod pages;
mod pictures;
mod sessions;
mod texts;
mod webhooks;
mod window;
