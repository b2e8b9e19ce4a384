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
}
