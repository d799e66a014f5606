#!/usr/bin/env bash
# A stand-in for the official image of PostgreSQL, from Debian's package, where that image cannot be pulled.
# It understands the variables that docker-compose.yml sets, and no others.
#   tests/e2e/postgres.sh TAG
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/entrypoint.sh" <<'EOF'
#!/bin/sh
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb -D "$PGDATA" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --encoding=UTF8 \
        --auth-local=trust --auth-host=scram-sha-256
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=" -w start
    createdb -h /var/run/postgresql -U "$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec postgres -D "$PGDATA" -c listen_addresses='*'
EOF
chmod 755 "$folder/entrypoint.sh"
cat >"$folder/Dockerfile" <<'EOF'
FROM debian:bookworm-slim
RUN apt-get update -q && apt-get install -q -y --no-install-recommends postgresql-15 && rm -rf /var/lib/apt/lists/* && \
    rm -rf /var/lib/postgresql/* && install -d -o postgres -g postgres -m 1777 /var/lib/postgresql/data && chmod 1777 /run/postgresql
COPY entrypoint.sh /usr/local/bin/
ENV PATH=/usr/lib/postgresql/15/bin:$PATH LANG=C.UTF-8
USER postgres
VOLUME /var/lib/postgresql/data
EXPOSE 5432
ENTRYPOINT ["entrypoint.sh"]
EOF
docker build -q -t "$1" "$folder"
