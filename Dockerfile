# The gateway and nothing else: a static binary, and the certificates of the public authorities.
# There is no shell in it, and no HEALTHCHECK: ask /healthz and /readyz on port 9090 from outside.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t gateway .

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=development
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -tags grpcnotrace -buildvcs=false -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/gateway ./cmd/gateway
RUN mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/gateway /gateway
# The embedded store, if it is used, is in /data/gateway-data: mount a volume on /data.
COPY --from=build --chown=65532:65532 /out/data /data
WORKDIR /data
USER 65532:65532
ENV GATEWAY_ADDR=:8080 GATEWAY_ADMIN_ADDR=:9090
EXPOSE 8080 9090
ENTRYPOINT ["/gateway"]
CMD ["serve"]
