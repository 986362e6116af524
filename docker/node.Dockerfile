# One of the Node services: --build-arg SERVICE=ingest, api or simulator.
# Build from the root of the repository; the image is in versions.env.
ARG NODE_IMAGE

FROM ${NODE_IMAGE} AS packages
ARG SERVICE
WORKDIR /sandglass
COPY package.json package-lock.json .npmrc ./
COPY api/package.json api/
COPY common/package.json common/
COPY dashboards/package.json dashboards/
COPY ingest/package.json ingest/
COPY simulator/package.json simulator/
COPY test/package.json test/
RUN npm ci --omit=dev --ignore-scripts --workspace=common --workspace="${SERVICE}"

FROM ${NODE_IMAGE}
ARG SERVICE
ARG NODE_FLAGS
ENV NODE_ENV=production \
    SERVICE=${SERVICE} \
    NODE_FLAGS=${NODE_FLAGS} \
    ALLOW_REMOTE=true
WORKDIR /sandglass
COPY --from=packages /sandglass/ ./
COPY common/src/ common/src/
COPY ${SERVICE}/ ${SERVICE}/
# Where ingest keeps its spool.
RUN install --directory --owner=1000 --group=1000 /var/lib/sandglass
# The user `node` of the image.
USER 1000:1000
# `exec` makes the service process 1, so that it gets the signals itself.
ENTRYPOINT ["sh", "-c", "exec node ${NODE_FLAGS} \"${SERVICE}/src/main.js\" \"$@\"", "node"]
