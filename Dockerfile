# One image for the daemon and its commands:
#   docker build -t pgsluice .
#   docker run -d --name pgsluice -p 127.0.0.1:9870:9870 -v pgsluice:/var/lib/pgsluice -v ~/.ssh/pgsluice:/keys:ro pgsluice
#   docker exec pgsluice pgsluice host add db1 --ssh postgres@db1.example --identity /keys/id_ed25519 ...
FROM node:24-bookworm-slim AS build
WORKDIR /opt/pgsluice
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund
COPY bin bin
COPY src src
COPY config config

FROM node:24-bookworm-slim
COPY scripts/packages.sh scripts/packages.txt /tmp/packages/
RUN /tmp/packages/packages.sh install run && rm -rf /tmp/packages /var/lib/apt/lists/*
RUN useradd --system --create-home --home-dir /var/lib/pgsluice --shell /usr/sbin/nologin pgsluice \
 && mkdir -p /etc/pgsluice /run/pgsluice \
 && chown pgsluice: /run/pgsluice
COPY --from=build /opt/pgsluice /opt/pgsluice
RUN ln -s /opt/pgsluice/bin/pgsluice.js /usr/local/bin/pgsluice
USER pgsluice
ENV PGSLUICE_DAEMON_DATA_DIR=/var/lib/pgsluice \
    PGSLUICE_DAEMON_RUNTIME_DIR=/run/pgsluice \
    PGSLUICE_HTTP_LISTEN=0.0.0.0:9870
VOLUME /var/lib/pgsluice
EXPOSE 9870
STOPSIGNAL SIGTERM
ENTRYPOINT ["pgsluice"]
CMD ["start"]
