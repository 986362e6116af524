# The engine: built by Rust, run by little more than a C library.
# Build from the root of the repository; the images are in versions.env.
ARG RUST_IMAGE
ARG DEBIAN_IMAGE

FROM ${RUST_IMAGE} AS build
WORKDIR /build
COPY db-engine/ ./
RUN cargo build --release --locked --bin sandglass-db

FROM ${DEBIAN_IMAGE}
RUN groupadd --gid 10001 sandglass \
    && useradd --uid 10001 --gid sandglass --no-create-home --shell /usr/sbin/nologin sandglass \
    && install --directory --owner=sandglass --group=sandglass /var/lib/sandglass
COPY --from=build /build/target/release/sandglass-db /usr/local/bin/sandglass-db
USER 10001:10001
ENV DB_DATA_DIR=/var/lib/sandglass \
    DB_LISTEN=0.0.0.0:9042 \
    DB_HTTP=0.0.0.0:9180 \
    DB_ALLOW_REMOTE=true
VOLUME /var/lib/sandglass
EXPOSE 9042 9180
# There is no curl in the image; bash can open a connection by itself.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=6 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9180 && printf 'GET /health HTTP/1.1\\r\\nHost: engine\\r\\nConnection: close\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["sandglass-db"]
