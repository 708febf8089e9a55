# syntax=docker/dockerfile:1
# Both binaries in one small image; the command chooses: `serve` (default), or budget-dispatcher as entrypoint.

FROM rust:1.95-slim-trixie AS build
WORKDIR /src
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY lua lua
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bins \
    && install -D -t /out target/release/budget-authority target/release/budget-dispatcher

FROM debian:trixie-slim
RUN useradd --system --uid 10001 --user-group --no-create-home budget
COPY --from=build /out/ /usr/local/bin/
USER 10001:10001
# The API and the metrics.
EXPOSE 7878 7879
ENTRYPOINT ["budget-authority"]
CMD ["serve"]
