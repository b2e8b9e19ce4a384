module github.com/kstonedb/kstone/tools

go 1.26.0
