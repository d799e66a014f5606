# One image for the service, its workers, the scheduler and the migration.
#   docker build -t phonechain .
#   docker build -t phonechain --build-context wheels=DIR .          torch from a wheel in a folder of this machine
#   docker build -t phonechain:cuda --build-arg TORCH=cuda .         torch with CUDA, for `docker run --gpus`
#   docker build -t phonechain --build-arg EXTRAS=s3,otel .          with extras of pyproject.toml

ARG PYTHON=3.11

# Empty, unless a build context of that name stands in for it.
FROM scratch AS wheels

# What the packages below depend on, so that no other change of these files has them fetched again.
FROM python:${PYTHON}-slim-bookworm AS wanted
ARG EXTRAS=
COPY pyproject.toml constraints.txt /
RUN sed -n 's/^torch==//p' /constraints.txt >/torch && \
    python -c 'import os, tomllib; p = tomllib.load(open("/pyproject.toml", "rb"))["project"]; \
        extras = os.environ["EXTRAS"].replace(",", " ").split(); \
        print(*p["dependencies"], *(d for e in extras for d in p["optional-dependencies"][e]), sep="\n")' >/packages

FROM python:${PYTHON}-slim-bookworm AS packages
# cpu: the CPU build of PyTorch's index. cuda: the ordinary build of the package index. Anything else: that build (cu130, ...).
ARG TORCH=cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/${TORCH}
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_COMPILE=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
RUN apt-get update -q && apt-get install -q -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/* && \
    python -m venv --without-pip /opt/phonechain

# The largest part first, without what it depends on: PyTorch's index is asked for torch and nothing else.
COPY --from=wanted /torch ./
RUN --mount=type=bind,from=wheels,target=/wheels \
    if [ "$TORCH" != cuda ]; then \
        if ls /wheels/torch-*.whl >/dev/null 2>&1; then from="--no-index --find-links /wheels"; else from="--index-url $TORCH_INDEX"; fi; \
        pip --python /opt/phonechain/bin/python install -q --no-deps $from "torch==$(cat torch)+$TORCH"; \
    fi
COPY --from=wanted /packages /constraints.txt ./
RUN pip --python /opt/phonechain/bin/python install -q -c constraints.txt -r packages
# What only tests and compilers read goes; the rest is compiled once, since the image is read-only.
RUN cd /opt/phonechain/lib/python3*/site-packages && \
    rm -rf torch/include torch/share torch/test && \
    find torch/bin -type f -not -name torch_shm_manager -delete && \
    find . -type d \( -name tests -o -name test \) -not -path './torch/*' -prune -exec rm -rf {} + && \
    find . -type f \( -name '*.pxd' -o -name '*.pyx' -o -name '*.h' -o -name '*.hpp' -o -name '*.a' -o -name '*.c' \) -delete && \
    /opt/phonechain/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash -x py312_intrinsics .

# The program apart from its packages: an upgrade is then a layer of a few megabytes.
FROM packages AS program
COPY pyproject.toml README.md LICENSE ./
COPY phonechain phonechain
COPY features features
COPY model model
COPY app app
RUN pip --python /opt/phonechain/bin/python install -q --no-deps --prefix /opt/program . && \
    /opt/phonechain/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/program
# Nothing that it needs is gone.
RUN cp -r /opt/program/. /opt/phonechain/ && /opt/phonechain/bin/phonechain demo

FROM python:${PYTHON}-slim-bookworm
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Phonechain" \
      org.opencontainers.image.description="Labels the phones of speech whose segment boundaries are known, and says how sure it is of each." \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# /data is the one place that is written; /tmp may be in memory. A volume that is new takes the owner of the folder.
RUN groupadd --gid 10001 phonechain && \
    useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin phonechain && \
    install -d -o 10001 -g 10001 -m 0750 /data && install -d -o 10001 -g 10001 -m 0755 /secrets
COPY --from=packages /usr/bin/tini /usr/local/bin/tini
COPY --from=packages /opt/phonechain /opt/phonechain
COPY --from=program /opt/program /opt/phonechain
ENV PATH=/opt/phonechain/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/data \
    PHONECHAIN_DATA=/data \
    PHONECHAIN_HOST=0.0.0.0
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-m", "phonechain.app.ops.healthcheck", "service"]
# The first process of a container hands signals on and buries orphans.
ENTRYPOINT ["tini", "--", "phonechain"]
CMD ["serve"]
