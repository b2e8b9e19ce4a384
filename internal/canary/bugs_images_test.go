package canary_test

// imageBugs are planted in what scans remember of small spans.
var imageBugs = []bug{
	{
		"scans leave out stripes that lack a span: a first key counts too early",
		[]edit{{
			"memtable/table.go", "	if n == 1 {\n",
			"	t.keys.Store(uint64(n))\n	base.Yield()\n	if n == 1 {\n",
		}},
		"./memtable", "TestCountedKeysAreFound",
	},
	{
		"an image is of what a reader sees: a commit that has its number is not waited for",
		[]edit{{
			"engine/internal/read/watches.go", "w.since = s.log.LastSeq()", "w.since = seq",
		}},
		"./engine/internal/read", "TestImagesWaitForCommits",
	},
	{
		"an image is of what a reader sees: a range that is deleted does not end it",
		[]edit{{
			"engine/internal/commit/pipeline.go", "		watched.TouchSpan(r.Span, seq)\n", "",
		}},
		"./engine", "TestImagesEndWithEachWrite",
	},
	{
		"a void has no items: puts do not touch it",
		[]edit{{"engine/internal/read/watches.go", "!(w.void && deletes)", "!w.void"}},
		"./engine/internal/read", "TestVoids",
	},
	{
		"a void has no items: it begins with its watch, not with the reader that decides",
		[]edit{{
			"engine/internal/read/voids.go", "CompareAndSwap(undecided, uint64(seq))",
			"CompareAndSwap(undecided, uint64(w.since))",
		}},
		"./engine/internal/read", "TestVoidsBeginWithTheirReader",
	},
	{
		"a void has no items: what is put between the moment of a reader and the watch is in it",
		[]edit{{"engine/internal/read/voids.go", "if w.since != seq {", "if false {"}},
		"./engine/internal/read", "TestVoidsBeginWithTheirReader",
	},
}
