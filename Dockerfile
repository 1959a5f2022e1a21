# syntax=docker/dockerfile:1
# Two images (docs/install.md):
#   docker build -t powerinfer .                       the processor alone: one static file on distroless
#   docker build -t powerinfer:vulkan --target vulkan .  graphics cards too: the Vulkan loader and Mesa's drivers on Debian
ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-bookworm AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ENV CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} GOTOOLCHAIN=local
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# With the history the toolchain notes version and commit in the binary. --build-arg BUILDVCS=false: not, as in a git worktree, whose history is elsewhere.
ARG BUILDVCS=auto
RUN go build -buildvcs=${BUILDVCS} -trimpath -ldflags="-s -w" -tags nogpu -o /out/static/powerinfer ./cmd/powerinfer
# The folders that volumes are mounted at belong to the image's user: a new volume takes their owner.
RUN mkdir -p /out/folders/models /out/folders/state

FROM build AS build-vulkan
RUN go build -buildvcs=${BUILDVCS} -trimpath -ldflags="-s -w" -o /out/vulkan/powerinfer ./cmd/powerinfer

FROM debian:bookworm-slim AS vulkan
RUN apt-get update \
	&& apt-get install -y --no-install-recommends ca-certificates libvulkan1 mesa-vulkan-drivers \
	&& rm -rf /var/lib/apt/lists/*
COPY --from=build-vulkan /out/vulkan/powerinfer /usr/local/bin/powerinfer
COPY LICENSE LICENSES.txt /usr/share/doc/powerinfer/
COPY --from=build --chown=65532:65532 /out/folders/ /
# NVIDIA's container toolkit brings its Vulkan driver where graphics is asked for.
ENV LLAMA_ARG_HOST=0.0.0.0 HOME=/state XDG_CACHE_HOME=/state NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility
USER 65532:65532
VOLUME ["/models", "/state"]
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=6s --start-period=10m --retries=3 CMD ["/usr/local/bin/powerinfer", "health"]
ENTRYPOINT ["/usr/local/bin/powerinfer"]
CMD ["serve"]

FROM gcr.io/distroless/static-debian12:nonroot AS static
COPY --from=build /out/static/powerinfer /usr/local/bin/powerinfer
COPY LICENSE LICENSES.txt /usr/share/doc/powerinfer/
COPY --from=build --chown=65532:65532 /out/folders/ /
# What is measured of the machine, and models that are pulled, are kept in /state.
ENV LLAMA_ARG_HOST=0.0.0.0 HOME=/state XDG_CACHE_HOME=/state
USER 65532:65532
VOLUME ["/models", "/state"]
EXPOSE 8080
# A model may take minutes to load; failures do not count until then.
HEALTHCHECK --interval=30s --timeout=6s --start-period=10m --retries=3 CMD ["/usr/local/bin/powerinfer", "health"]
ENTRYPOINT ["/usr/local/bin/powerinfer"]
CMD ["serve"]
