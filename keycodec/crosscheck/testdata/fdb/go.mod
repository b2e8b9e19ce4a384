module github.com/apple/foundationdb/bindings/go

go 1.26.0
