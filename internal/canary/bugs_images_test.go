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
		"scans leave out stripes that lack a span: what was found is never looked for again",
		[]edit{{"stripe/known.go", "case bare == keys+bareFrom:", "case bare >= bareFrom:"}},
		"./engine", "TestReadersAgreeBesideWriters",
	},
	{
		"scans leave out stripes that lack a span: one that is closed lacks what it once lacked",
		[]edit{{"stripe/known.go", "case !open:", "case !open && bare == mayHold:"}},
		"./stripe", "TestClosedStripesLackNothing",
	},
	{
		"readers beside the writer: a seq is visible before the stripes that have it",
		[]edit{{
			"engine/internal/read/generation.go", "	s.snaps.mu.Lock()\n	old :=",
			"	s.visible.reset(seq)\n	s.snaps.mu.Lock()\n	old :=",
		}},
		"./engine/internal/read", "TestGenerationsBeginWithTheirSeq",
	},
	{
		"readers below the floor of another process keep what they need: they are not in order",
		[]edit{{
			"engine/internal/read/snapshots.go", "if s.list.prev.seq > n.seq {", "if false {",
		}},
		"./engine/internal/read", "TestReadersBelowTheFloor",
	},
	{
		"readers beside the writer: what is loaded again is visible before it is there",
		[]edit{{
			"engine/internal/follow/follow.go", "	f.log = log\n	f.switchTo(state, next)",
			"	f.log = log\n	f.env.Reads.Reset(f.shown())\n" +
				"	time.Sleep(time.Millisecond)\n	f.switchTo(state, next)",
		}},
		"./engine", "TestReadersLoadAgainAtOnce",
	},
	{
		"an image is of what a reader sees: a commit that has its number is not waited for",
		[]edit{{
			"engine/internal/read/watches.go", "k.since = s.log.LastSeq()", "k.since = seq",
		}},
		"./engine/internal/read", "TestImagesWaitForCommits",
	},
	{
		"an image is of what a reader sees: a range that is deleted does not end it",
		[]edit{{
			"engine/internal/commit/pipeline.go", "p.env.Reads.TouchSpan(r.Span, seq)\n", "",
		}},
		"./engine", "TestImagesEndWithEachWrite",
	},
	{
		"a void has no items: puts do not touch it",
		[]edit{{
			"engine/internal/read/watches.go",
			"s.voids.of[id].load(); list != nil", "s.voids.of[id].load(); false",
		}},
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
	{
		"a void has no items: those of merged partitions reach beyond the first item of all",
		[]edit{{
			"engine/internal/read/voids.go", "		if key != nil {\n			g.walked",
			"		if false {\n			g.walked",
		}},
		"./engine/internal/read", "TestVoidsFollowTheHead",
	},
}
