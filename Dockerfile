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
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="budget-authority" \
      org.opencontainers.image.description="Hard budget limits for autonomous agents: reserve before acting, commit what it cost, release the rest." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/debian:trixie-slim"
RUN useradd --system --uid 10001 --user-group --no-create-home budget
COPY --from=build /out/ /usr/local/bin/
USER 10001:10001
# The API, the metrics, the admin plane where it has an address of its own.
EXPOSE 7878 7879 7880
# On the address of the metrics, which both binaries have.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["budget-authority", "health", "--metrics"]
ENTRYPOINT ["budget-authority"]
CMD ["serve"]
