# kstone-cli alone, for databases that are mounted at /data:
#
#   docker build -t kstone-cli --build-arg VERSION=$(git describe --tags --always) .
#   docker run --rm -it -v "$PWD:/data" --user "$(id -u)" kstone-cli stats mydb
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -o /kstone-cli \
	-ldflags "-s -w -X github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli.version=$VERSION" \
	./cmd/kstone-cli

FROM scratch
COPY --from=build /kstone-cli /kstone-cli
USER 65532:65532
WORKDIR /data
ENTRYPOINT ["/kstone-cli"]
