# syntax=docker/dockerfile:1
# Both binaries in one small image; the command chooses: `serve` (default), or budget-dispatcher as entrypoint.
# CONTRIBUTING.md says how to renew the versions of the base images.

FROM rust:1.95.0-slim-trixie AS build
WORKDIR /src
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY lua lua
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bins \
    && install -D -t /out target/release/budget-authority target/release/budget-dispatcher

# What the binaries link to and the public certificate authorities, without a shell or a package manager. Scanners find the
# packages and their versions in status.d.
FROM debian:trixie-20260803-slim AS runtime
WORKDIR /packages
RUN apt-get update -qq \
    && apt-get download -qq -o APT::Sandbox::User=root base-files ca-certificates gcc-14-base libc6 libgcc-s1 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /runtime
RUN set -e; mkdir -p etc/ssl/certs var/lib/dpkg/status.d; \
    for package in /packages/*.deb; do \
        dpkg-deb -x "$package" .; \
        dpkg-deb -f "$package" > "var/lib/dpkg/status.d/$(dpkg-deb -f "$package" Package)"; \
    done; \
    awk 1 usr/share/ca-certificates/mozilla/*.crt > etc/ssl/certs/ca-certificates.crt; \
    rm -rf usr/lib/*/gconv usr/sbin/* usr/share/ca-certificates usr/share/lintian usr/share/locale usr/share/man; \
    find usr/share/doc -type f ! -name copyright -delete; \
    echo 'hosts: files dns' > etc/nsswitch.conf; \
    printf '%s\n' root:x:0:0::/:/nologin budget:x:10001:10001::/:/nologin > etc/passwd; \
    printf '%s\n' root:x:0: budget:x:10001: > etc/group; \
    install -d -m 1777 tmp

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="budget-authority" \
      org.opencontainers.image.description="Hard budget limits for autonomous agents: reserve before acting, commit what it cost, release the rest." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=runtime /runtime/ /
COPY --from=build /out/ /usr/local/bin/
ENV PATH=/usr/local/bin
USER 10001:10001
# The API, the metrics, the admin plane where it has an address of its own.
EXPOSE 7878 7879 7880
# On the address of the metrics, which both binaries have.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["budget-authority", "health", "--metrics"]
ENTRYPOINT ["budget-authority"]
CMD ["serve"]
