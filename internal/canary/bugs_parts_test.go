package canary_test

// partBugs are planted in the parts of indexes.
var partBugs = []bug{
	{
		"nothing overwritten comes back: a key goes on in the next part of an index",
		[]edit{{"sst/prune.go", "	if i+1 < c.t.blocks {\n", "	if i+1 < x.end() {\n"}},
		"./sst", "TestPrunedAtParts",
	},
	{
		"a part of an index leads to its keys: it ends with the versions of its first block",
		[]edit{{"sst/writer.go", "w.index.recs[p.to-1].lastSeq", "w.index.recs[p.from].lastSeq"}},
		"./sst", "TestModel",
	},
	{
		"a lookup reads little of an index that is not cached: all of it is one part",
		[]edit{{"sst/writer.go", "	if n <= w.o.PartBlocks {\n", "	if n >= 0 {\n"}},
		"./sst", "TestPartsReadLittle",
	},
	{
		"a file that a merge moves lives on: it is removed when the database is closed",
		[]edit{{
			"stripe/write.go", "if o.Run == nil || !slices.Contains(o.Run.Files, f.Meta) {",
			"if o.Run == nil || true {",
		}},
		"./stripe", "TestRisingFilesMove",
	},
	{
		"a file that a merge moves lives on: each run closes it",
		[]edit{{
			"stripe/view.go", "if f.refs.Add(-1) == 0 {", "if f.refs.Add(-1) >= 0 {",
		}},
		"./stripe", "TestMovedFilesOutliveTheirRuns",
	},
	{
		"a file with what a merge drops is merged: one whose items have expired is moved",
		[]edit{{"stripe/move.go", "m.TTLEntries > 0 && m.MinExpiry <= ret.NowMs", "false"}},
		"./stripe", "TestExpiredFilesDoNotMove",
	},
	{
		"a run has few small files: whatever overlaps nothing is moved",
		[]edit{{"stripe/move.go", "m.SizeBytes*int64(env.RunFiles) < total", "false"}},
		"./stripe", "TestRisingKeysMakeFewFiles",
	},
}
