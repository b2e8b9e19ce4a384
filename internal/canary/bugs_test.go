package canary_test

// edit replaces the only occurrence of old in a file.
type edit struct{ file, old, new string }

// bug is a planted bug with the test that must fail because of it.
type bug struct {
	promise string // that is broken
	edits   []edit
	pkg     string
	test    string // name of the test
}

// noError stands for a call that is left out.
const noError = "if err := error(nil); err != nil {"

// suite is the package of the random tests of the engine.
const suite = "./engine/internal/suite"

// bugs are chosen to be small and easily made: a line forgotten, a case not thought of.
var bugs = []bug{
	{
		"acknowledged at Sync survives a power cut: the commit does not wait",
		[]edit{{
			"engine/internal/commit/pipeline.go", "	if t.Sync {\n",
			"	if t.Sync && seq == 0 {\n",
		}},
		suite, "TestPowerCutsOfTheWholeEngine",
	},
	{
		"acknowledged at Sync survives a power cut: the log is not synced",
		[]edit{{"wal/sync.go", "if err := s.sync(); err != nil {", "_ = s\n" + noError}},
		suite, "TestPowerCutsOfTheWholeEngine",
	},
	{
		"a failed sync is final: it is tried again",
		[]edit{{
			"wal/sync.go", "if err := s.sync(); err != nil {",
			"if err := s.sync(); err != nil && s.sync() != nil {",
		}},
		"./engine", "TestSyncThatFailsOnceIsFinal",
	},
	{
		"a power cut leaves a prefix: a flush does not sync the log first",
		[]edit{{
			"engine/internal/upkeep/flush.go", "if err := u.log.Sync(upTo); err != nil {", noError,
		}},
		suite, "TestPowerCutsOfTheWholeEngine",
	},
	{
		"new files survive a power cut: their directory is not synced",
		[]edit{{
			"engine/internal/upkeep/flush.go", "return u.env.FS.SyncDir(u.env.Dir)", "return nil",
		}},
		suite, "TestPowerCutsOfTheWholeEngine",
	},
	{
		"the manifest survives a power cut: an edit is not synced",
		[]edit{{
			"internal/manifest/log.go",
			"	if err := vfs.SyncNamed(l.file); err != nil {\n" +
				"		return l.fail(fmt.Errorf(\"sync %s",
			"	" + noError + "\n		return l.fail(fmt.Errorf(\"sync %s",
		}},
		"./internal/manifest", "TestPowerCutAnywhere",
	},
	{
		"files of a lease stay: the writer does not look at the leases",
		[]edit{{
			"engine/internal/upkeep/recycle.go", "		floor, leased = r.floor()\n",
			"		floor, leased = lease.Held{}, false\n",
		}},
		"./engine", "TestLeasedFilesGo",
	},
	{
		"a reader publishes its lease first: it loads the state before",
		[]edit{
			{
				"engine/internal/follow/follow.go", "	if leased {\n",
				"	if f.man, err = manifest.Follow(fsys, dir); leased && err == nil {\n",
			},
			{
				"engine/internal/follow/follow.go",
				"	if f.man, err = manifest.Follow(fsys, dir); err != nil {\n",
				"	if err != nil {\n",
			},
		},
		"./engine", "TestLeaseBeforeTheState",
	},
	{
		"log of a lease stays: it is recycled",
		[]edit{{"wal/release.go", "s.num >= floor {", "s.num > floor+1<<40 {"}},
		"./wal", "TestFloor",
	},
	{
		"what a writer appends is no damage for a reader: it is",
		[]edit{{
			"engine/internal/follow/follow.go",
			"if err == nil || errors.Is(err, corrupt.ErrCorrupt) {", "if err == nil {",
		}},
		"./engine", "TestLogGrowsWhileItIsRead",
	},
	{
		"what readers see is durable: they do not sync it",
		[]edit{{"wal/follow.go", "errors.Join(file.Sync(), file.Close())", "file.Close()"}},
		"./engine", "TestReadersSeeWhatSurvives",
	},
	{
		"what readers see is durable: they show the last record for the synced one",
		[]edit{{
			"engine/internal/follow/follow.go", "	return f.log.SyncedSeq()\n",
			"	return f.log.LastSeq()\n",
		}},
		"./engine", "TestReadersShowNothingUnsynced",
	},
	{
		"a stream beside the writer keeps what it reads: the lease moves on",
		[]edit{{
			"engine/internal/follow/follow.go", "	if f.view != nil {\n		h.Segment",
			"	if f.view != nil && f.closed {\n		h.Segment",
		}},
		"./engine", "TestChangesBesideTheWriter",
	},
	{
		"a change stream has every commit once: the first of a segment comes twice",
		[]edit{{"wal/tail.go", "if h.marker() || h.seq < r.next {", "if h.marker() {"}},
		"./internal/torture", "TestTorture",
	},
	{
		"a change stream has every commit: one is left out where a segment ends",
		[]edit{{
			"wal/tail.go", "			r.before = r.seg\n",
			"			r.before, r.next = r.seg, r.next+1\n",
		}},
		"./internal/torture", "TestTorture",
	},
	{
		"a change stream shows what is durable: it shows the last commit",
		[]edit{{
			"engine/internal/history/stream.go", "	return h.env.Log.SyncedSeq()\n",
			"	return h.env.Log.LastSeq()\n",
		}},
		"./engine", "TestChangesAreDurable",
	},
	{
		"a change has what was before its commit: it has what the commit made",
		[]edit{{
			"engine/snapshot.go", "SnapshotAt(c.Version - 1)", "SnapshotAt(c.Version)",
		}},
		"./engine", "TestChangesBefore",
	},
	{
		"nothing goes that is to be retained: three segments more do",
		[]edit{{
			"engine/internal/history/history.go", "from = s.Num + 1\n", "from = s.Num + 4\n",
		}},
		"./engine", "TestRetainedExactly",
	},
	{
		"snapshots of a reader stay as they are: they read the present files",
		[]edit{{
			"engine/internal/read/snapshots.go", "n.seq, n.gen = of.seq, of.gen",
			"n.seq, n.gen = of.seq, s.gen",
		}},
		"./engine", "TestReadersBesideTheWriter",
	},
	{
		"records read back are not trusted to be durable: they are not written again",
		[]edit{{
			"wal/log.go", "if err := s.rewrite(l.o.FS); err != nil {", noError,
		}},
		"./wal", "TestOpenRewritesWhatMayNotBeDurable",
	},
	{
		"torn records do not come back: the log goes on before its cut is synced",
		[]edit{{"wal/resume.go", "if err := f.Sync(); err != nil {", noError}},
		"./wal", "TestTornRecordsDoNotComeBack",
	},
	{
		"opening trusts no manifest that may not be durable: every one counts as sealed",
		[]edit{{
			"internal/manifest/log.go", "if err == nil && in.sealed && in.next > 1 {",
			"if err == nil && in.torn == 0 {",
		}},
		"./internal/manifest", "TestPowerCutAnywhere",
	},
	{
		"nothing acknowledged is lost by a kill: recovery forgets some stripes",
		[]edit{{
			"engine/internal/commit/replay.go", "if seq <= r.flushed[o.stripe] {",
			"if seq <= r.flushed[o.stripe] || o.stripe%16 == 7 {",
		}},
		"./internal/torture", "TestTorture",
	},
	{
		"nothing acknowledged is lost by a kill: a flush releases the log of other stripes",
		[]edit{{"engine/internal/upkeep/flush.go", "needed = min(needed, low)", "_ = low"}},
		"./internal/torture", "TestTorture",
	},
	{
		"snapshots see whole batches: a batch is published before it is in the memtables",
		[]edit{
			{
				"engine/internal/commit/pipeline.go", "	horizon := p.env.Reads.Horizon()\n",
				"	if len(b.ops) > 1 {\n		p.env.Reads.Publish(seq)\n	}\n" +
					"	horizon := p.env.Reads.Horizon()\n",
			},
			{
				"engine/internal/commit/pipeline.go",
				"	base.Yield()\n	p.env.Reads.Publish(seq)\n",
				"	if len(b.ops) == 1 {\n		p.env.Reads.Publish(seq)\n	}\n",
			},
		},
		"./engine", "TestBatchesAreSeenWhole",
	},
	{
		"transactions are serializable: what a query has read is not checked",
		[]edit{{
			"engine/internal/read/overlay.go", "	for _, r := range o.spans {\n",
			"	for _, r := range o.spans[:0] {\n",
		}},
		"./engine", "TestChangesOfAQueriedRangeConflict",
	},
	{
		"deleted items stay deleted: a merge drops tombstones above the bottom",
		[]edit{{
			"compaction/merge.go", "	if !m.o.Bottom {\n		return true\n",
			"	if !m.o.Bottom && m.out.Kind != base.KindDelete {\n		return true\n",
		}},
		"./compaction", "TestMergeAgainstModel",
	},
	{
		"snapshots do not change: merges take no notice of them",
		[]edit{{
			"engine/internal/read/read.go", "Snapshots: s.snaps.collect(),",
			"Snapshots: s.snaps.collect()[:0],",
		}},
		suite, "TestEngineBehavesLikeASortedMap",
	},
	{
		"a Get never answers from a file that is gone or used again: it does not look again",
		[]edit{{
			"stripe/stripe.go", "		if s.view.Load() == v {\n			return false, err\n",
			"		if s.view.Load() != nil {\n			return false, err\n",
		}},
		"./stripe", "TestGetOnARecycledFile",
	},
	{
		"a checkpoint's files are nobody else's: one with two names is used again",
		[]edit{{
			"engine/internal/upkeep/recycle.go", "err != nil || n > 1 {", "err != nil || n < 0 {",
		}},
		"./engine", "TestReusedFilesAreNobodyElses",
	},
	{
		"a checkpoint holds what was acknowledged: its log may be released meanwhile",
		[]edit{{"wal/copy.go", "pt.segment.pins++", "_ = pt"}},
		"./engine", "TestCheckpointKeepsItsLog",
	},
	{
		"writers do not wait for a checkpoint: it holds the log while it copies",
		[]edit{{
			"wal/release.go", "for l.releasableLocked(below) {",
			"for l.releasableLocked(below) && l.closed[0].pins == 0 {",
		}},
		"./engine", "TestCheckpointDoesNotHoldUpWriters",
	},
	{
		"a failed checkpoint removes only its own: it does not look again under the lock",
		[]edit{{
			"engine/destination.go",
			"	if err := checkEmpty(d.Dir, dir); err != nil {\n",
			"	if err := checkEmpty(d.Dir, dir); err != nil && d.lock == nil {\n",
		}},
		"./engine", "TestDestinationIsTakenMeanwhile",
	},
	{
		"damage is noticed before a wrong value is returned: checksums are not compared",
		[]edit{{
			"sst/blockio.go", "got := id.checksum(b[:n+5], h.off); got != want {",
			"got := id.checksum(b[:n+5], h.off); got != want && b == nil {",
		}},
		"./sst", "TestEveryFlippedByte",
	},
	{
		"damage below a synced point is an error: it is taken for a torn tail",
		[]edit{{
			"wal/recover.go", "if h.synced() <= r.tail.LastSeq {",
			"if h.synced() <= r.tail.LastSeq || h.seq > 0 {",
		}},
		"./wal", "TestFlipEveryByteOfAClosedLog",
	},
	{
		"filters know every key: they deny some",
		[]edit{{
			"zonemap/filter.go", "want := uint16(h ^ h>>32)", "want := uint16(h^h>>32) | 1",
		}},
		suite, "TestEngineBehavesLikeASortedMap",
	},
	{
		"repair says what is lost: damaged blocks are left out silently",
		[]edit{{"engine/internal/salvage/write.go", "r.lostBlocks(f, in.Lost)", "_ = f"}},
		"./engine", "TestRepairReadsAroundDamagedBlocks",
	},
	{
		"repair does not bring back what was deleted: gaps of the log are not thought of",
		[]edit{{
			"engine/internal/salvage/write.go",
			"r.poorer[id] && r.logWhole && ", "r.poorer[id] && ",
		}},
		"./engine", "TestRepairDoesNotBringBackWhatWasDeleted",
	},
	{
		"single keys are linearizable: a condition is checked before the lock is taken",
		[]edit{
			{
				"engine/internal/commit/pipeline.go",
				"	locks.Each(func(id uint8) { p.env.Stripes[id].Lock() })\n",
				"	if checks := b.hasConds(); checks {\n" +
					"		if err := b.check(ctx, p.env.Reads); err != nil {\n" +
					"			return err\n		}\n	}\n" +
					"	locks.Each(func(id uint8) { p.env.Stripes[id].Lock() })\n",
			},
			{"engine/internal/commit/pipeline.go", "	if b.hasConds() {\n", "	if false {\n"},
		},
		suite, "TestSingleKeysAreLinearizable",
	},
	{
		"snapshots see what was acknowledged before: they do not wait for commits under way",
		[]edit{{
			"engine/internal/read/read.go", "		s.visible.wait(s.log.LastSeq())\n",
			"		_ = s.log\n",
		}},
		suite, "TestSingleKeysAreLinearizable",
	},
	{
		"transactions are serializable: what a Get has read is not checked",
		[]edit{{
			"engine/internal/read/overlay.go", "	for _, r := range o.keys {\n",
			"	for _, r := range o.keys[:0] {\n",
		}},
		suite, "TestTransactionsAreSerializable",
	},
	{
		"transactions are serializable: range deletes are no change of a queried range",
		[]edit{{
			"stripe/changed.go", "		if t.Seq > seq && bytes.Compare(t.End, lo) > 0 &&",
			"		if t.Seq > seq && t.Seq == 0 && bytes.Compare(t.End, lo) > 0 &&",
		}},
		"./engine", "TestChangesOfAQueriedRangeConflict",
	},
	{
		"a crash leaves whole transactions: a stripe's part of a batch is not replayed",
		[]edit{{
			"engine/internal/commit/replay.go", "if seq <= r.flushed[o.stripe] {",
			"if seq <= r.flushed[o.stripe] || seq%16 == 5 && o.stripe%2 == 1 {",
		}},
		suite, "TestTransactionsAreSerializableAcrossCrashes",
	},
	{
		"the cache gives back what was asked for: a block is filled in for its neighbour",
		[]edit{{
			"sst/load.go", "cache.Insert(x.group, x.slot(i), b, ",
			"cache.Insert(x.group, x.slot(max(i, x.first+1)-1), b, ",
		}},
		suite, "TestProgramsUnderAllOptions",
	},
	{
		"expired items are invisible: for a millisecond too long in queries",
		[]edit{{
			"engine/internal/read/iteration.go", "return it.NowMs() >= e.Expiry",
			"return it.NowMs() > e.Expiry",
		}},
		suite, "TestProgramsUnderAllOptions",
	},
	{
		"deleted ranges stay deleted: a merge drops range tombstones above the bottom",
		[]edit{{
			"compaction/merge.go", "rangedel.Keep(o.RangeTombstones, &m.eras, o.Bottom)",
			"rangedel.Keep(o.RangeTombstones, &m.eras, true)",
		}},
		"./compaction", "TestMergeAgainstModel",
	},
	{
		"the manifest survives a power cut: the names of a new one are not synced",
		[]edit{{
			"internal/manifest/move.go",
			"currentTmpName, err)\n	}\n	if err := l.fs.SyncDir(l.dir); err != nil {\n",
			"currentTmpName, err)\n	}\n	" + noError + "\n",
		}},
		suite, "TestPowerCutAtEveryOperation",
	},
	{
		"a block of another place is noticed: the checksum does not cover where it is",
		[]edit{{
			"sst/blockio.go", "seed := uint32(id) ^ uint32(off) ^ (hi<<16 | hi>>16)",
			"seed := uint32(id) ^ hi&0",
		}},
		"./engine", "TestMovedBlocksAreNoticed",
	},
	{
		"space returns by itself: a range delete counts as 256 deletes in an idle database",
		[]edit{{
			"engine/internal/upkeep/flush.go",
			"(v.Active.Ranges() > 0 || deletes >= max(1, entries/20))",
			"uint64(256*v.Active.Ranges())+deletes >= max(1, entries/20)",
		}},
		"./engine", "TestDeletedItemsAreReclaimed",
	},
	{
		"who is shown nothing can be stopped: sources do not look at the context",
		[]edit{{"stripe/source.go", "s.ended = !ok || s.stopped();", "s.ended = !ok;"}},
		"./engine", "TestReadingNothingHeedsItsContext",
	},
	{
		"batches with conditions are atomic: the conditions are not checked",
		[]edit{{
			"engine/internal/commit/pipeline.go",
			"		if err := b.check(ctx, p.env.Reads); err != nil {",
			"		" + noError,
		}},
		"./engine", "TestBatchConditions",
	},
	{
		"databases of version 1 stay readable: two codecs change their numbers",
		[]edit{
			{"sst/options.go", "Zstd   Codec = 2", "Zstd   Codec = 3"},
			{"sst/options.go", "Snappy Codec = 3", "Snappy Codec = 2"},
			{"sst/options.go", "lastCodec = Snappy", "lastCodec = Zstd"},
		},
		"./engine", "TestGoldenDatabases",
	},
	{
		"a Get sees commits whole: complete is what became so while it searched",
		[]edit{{
			"engine/internal/read/lookup.go", "e.Seq > complete {",
			"e.Seq > max(complete, s.visible.load()) {",
		}},
		"./engine", "TestGetsSeeNoMomentWithinACommit",
	},
	{
		"a database owns its directory: Close cuts the log by its path",
		[]edit{{
			"wal/log.go",
			"	if s := l.cur; s != nil && s.size != end && s.unmap() == nil {\n" +
				"		_ = s.file.Truncate(end)\n",
			"	if l.cur == nil {\n		return\n	}\n" +
				"	if f, err := vfs.OS().OpenReadWrite(l.cur.path); err == nil {\n" +
				"		_ = f.Truncate(end)\n		_ = f.Close()\n",
		}},
		"./engine", "TestSwappedDirectories",
	},
	{
		"a database owns its directory: it works by path",
		[]edit{{"internal/vfs/dir.go", "(dirOpener); ok {", "(dirOpener); ok && d == nil {"}},
		"./engine", "TestSwappedDirectories",
	},
	{
		"one writer: the directory is not locked, only the file LOCK",
		[]edit{{
			"internal/vfs/os_dir.go", "dirLock, held := d.h.tryLock(shared)",
			"dirLock, held := (*os.File)(nil), false",
		}},
		"./engine", "TestSwappedDirectories",
	},
	{
		"acknowledged at Sync is on disk: a file that has been removed is taken for it",
		[]edit{{"internal/vfs/dir.go", "	case n == 0:\n", "	case n < 0:\n"}},
		"./engine", "TestRemovedDatabaseTurnsReadOnly",
	},
	{
		"a range after the longest sort key is one of its partition: its start is taken for a key",
		[]edit{{
			"engine/internal/kv/keyprefix.go", "keycodec.DecodeOrdered(ordered[:n], nil)",
			"keycodec.DecodeOrdered(ordered[:max(n, len(ordered))], nil)",
		}},
		suite, "TestProgramsUnderAllOptions",
	},
	{
		"no file is written that cannot be read: range tombstones never fill one",
		[]edit{{
			"sst/writer.go", "if w.SizeBytes() < w.o.FileBytes && !w.crowded() {",
			"if e == nil || w.SizeBytes() < w.o.FileBytes && !w.crowded() {",
		}},
		"./stripe", "TestRangeTombstonesFillFiles",
	},
	{
		"writers refuse what readers refuse: a block that is too large is written",
		[]edit{
			{"sst/writer.go", "if len(raw) > maxRaw {", "if len(raw) > math.MaxUint32 {"},
			{"sst/writer.go", "!h.check(size, uint32(maxRaw))", "!h.check(size, math.MaxUint32)"},
		},
		"./sst", "TestWriterRefusesWhatReadersRefuse",
	},
	{
		"empty write buffers are small: they keep the whole common prefix of the keys before",
		[]edit{{"memtable/table.go", "maxPrefixBytes = 256", "maxPrefixBytes = 1 << 20"}},
		"./memtable", "TestEmptyTableIsSmall",
	},
	{
		"writers do not wait for what no flush frees: log files that stay count as held",
		[]edit{{
			"wal/release.go", "n := sizeOf(l.closed, l.spares)\n",
			"n := sizeOf(l.closed, l.spares, l.obsolete)\n",
		}},
		"./engine", "TestLogFilesThatStay",
	},
	{
		"blocks show what items do: what is deleted is read where it is",
		[]edit{{
			"sst/entries.go", "m.Tombstones|m.TTLEntries|m.RangeTombstones != 0 || m.MaxSeq > snap",
			"m.MaxSeq > snap",
		}},
		"./engine", "TestBlocks",
	},
	{
		"blocks show what items do: older versions are read where they are",
		[]edit{{
			"sst/entries.go", "err == nil && t.props.keys == m.Entries", "err == nil && t != nil",
		}},
		"./engine", "TestBlocks",
	},
	{
		"counts are of the range asked for: the ranks of one that begins there, too, answer",
		[]edit{{
			"internal/cache/spans.go", "bytes.Equal(k.lo, lo) && bytes.Equal(k.hi, hi)",
			"bytes.Equal(k.lo, lo)",
		}},
		"./engine", "TestCountsOfChangingRanges",
	},
	{
		"a count is what a scan shows: an older reader is answered what a later one has counted",
		[]edit{{
			"stripe/count.go", "if s.maxSeq > snap {", "if s.maxSeq > snap && snap == 0 {",
		}},
		"./engine", "TestCountsAreThoseOfScans",
	},
	{
		"a count is what a scan shows: what is deleted in a memtable is not looked up in files",
		[]edit{{
			"stripe/counttables.go", "e.Kind == base.KindPut && alone && c.files == 0",
			"e.Kind == base.KindPut && alone || e.Kind == base.KindDelete",
		}},
		"./engine", "TestCountsAreThoseOfScans",
	},
	{
		"nothing overwritten comes back: a block is pruned although a wanted version lies beneath",
		[]edit{{
			"stripe/prune.go", "f.Reader.Wanted(first, last, p) {",
			"f.Reader.Wanted(first, last, p) && first == nil {",
		}},
		suite, "TestRangesAgainstModel",
	},
	{
		"nothing overwritten comes back: a block of rows is pruned although a row lies beneath",
		[]edit{{
			"stripe/prune.go", "f.Reader.Wanted(first, last, p) {",
			"f.Reader.Wanted(first, last, p) && first == nil {",
		}},
		"./engine/table", "TestZonesChangeNoResult",
	},
	{
		"column zones change nothing that is found: a column of entries is in order in all blocks",
		[]edit{{
			"engine/schema/zones.go", "if !same || f.Nullable {",
			"if !same && i < 0 || f.Nullable {",
		}},
		"./engine/table", "TestZonesChangeNoResult",
	},
	{
		"nothing overwritten comes back: entries of older files without zones are taken for none",
		[]edit{{
			"engine/plan/spans/zones.go", "(schema.OtherItems, 0); !none {",
			"(schema.OtherItems, 0); !none && z.group == 0 {",
		}},
		"./engine/table", "TestZonesOfEntries",
	},
	{
		"nothing overwritten comes back: blocks of entries are pruned by what their rows have",
		[]edit{{
			"engine/plan/zones.go", "if terms = p.entryTerms(terms); len(terms) > 0 {",
			"if terms := p.entryTerms(terms); len(terms) > len(p.pred) {",
		}},
		"./engine/table", "TestZonesOfStaleEntries",
	},
	{
		"nothing overwritten comes back: a block is pruned although a key goes on in the next",
		[]edit{{
			"sst/prune.go", "sameKey(c.bounds[n:], y.prefix(), next.First)",
			"sameKey(c.bounds[n:], y.prefix(), next.First) && i < 0",
		}},
		"./engine", "TestPrunedReadings",
	},
	{
		"queries mean the same by every path: < ends a span after its value",
		[]edit{{
			"engine/plan/spans/columncuts.go",
			"op == atomLe || op == atomGt; aboveFloor",
			"op == atomLe || op == atomGt || op == atomLt; aboveFloor",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: a partial index of values answers for NULL",
		[]edit{{
			"engine/plan/access.go",
			"\tfields := []keycodec.Field{info.Field(schema.KeyColumn{})}\n",
			"\tfields := " +
				"[]keycodec.Field{info.Field(schema.KeyColumn{})}\n\tfields[0].Nullable = " +
				"false\n",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: DESC is lost after the first column of a key",
		[]edit{{
			"engine/plan/order.go",
			"Ordinal: o, Desc: f.Desc,",
			"Ordinal: o, Desc: f.Desc && i == fixed,",
		}},
		"./engine/plan", "TestPagesAreTheWhole",
	},
	{
		"queries mean the same by every path: spans that touch become one with other residuals",
		[]edit{{
			"engine/plan/spans/build.go",
			"&& b.same(last.node, n)",
			"&& (b.same(last.node, n) || !fixed)",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: an entry keeps its old INCLUDE",
		[]edit{{
			"engine/schema/changes.go",
			"if rewrite || !bytes.Equal(before[0].Value, after[0].Value) {",
			"if rewrite || len(before[0].Value) != len(after[0].Value) {",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: an entry for each element is a row for each",
		[]edit{{
			"engine/plan/access.go",
			"p.repeats = p.key.Each != nil\n",
			"p.repeats = p.key.Each != nil && len(r.pred) > 1\n",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: LIMIT counts rows that the filter leaves out",
		[]edit{{
			"engine/exec/access.go",
			"\t\treturn false\n\t}\n\treturn ok\n",
			"\t\treturn false\n\t}\n\tif !ok && s.left > 1 {\n\t\ts.left--\n\t}\n\treturn ok\n",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: zones leave out what hides an older version",
		[]edit{{
			"stripe/prune.go",
			"f.Reader.Wanted(first, last, p) {",
			"f.Reader.Wanted(first, last, p) && first == nil {",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: IS NULL makes a left join inner",
		[]edit{{
			"engine/plan/distribute.go",
			"return t.Not && isColumn(t.X)",
			"return isColumn(t.X)",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"queries mean the same by every path: DISTINCT is left out of unique columns, with NULLs",
		[]edit{{
			"engine/plan/result.go",
			"	if ok && !q.grouped && groups(columns,",
			"	if r := q.relationOf(source); ok && r != nil && r.table != nil {\n" +
				"		for _, x := range r.table.Indexes {\n" +
				"			if x.Unique && x.Columns[0].Ordinal == columns[0] {\n" +
				"				return\n			}\n		}\n	}\n" +
				"	if ok && !q.grouped && groups(columns,",
		}},
		"./engine/sql", "TestOracles",
	},
	{
		"column zones change nothing that is found: MIN leaves out a block with a smaller value",
		[]edit{{"engine/exec/extreme.go", "x.key) < 0 {", "x.key) < -1 {"}},
		"./engine/table", "TestZonesOfARisingColumn",
	},
	{
		"plans are priced with the costs of the store: fetching rows takes no round trip",
		[]edit{{
			"engine/plan/price.go", "c.Fetch*fetched + c.Trips(fetched, c.Batch)",
			"c.Fetch * fetched",
		}},
		"./engine/sql", "TestCostsOfTheStore",
	},
	{
		"column zones change nothing that is found: a file has the zones of its first block",
		[]edit{{
			"zonemap/zone/builder.go", "c.block.Values {\n\t\t\tc.file",
			"c.block.Values && !c.file.Values {\n\t\t\tc.file",
		}},
		"./zonemap/zone", "TestColumnsModel",
	},
	{
		"column zones change nothing that is found: rows are described by the last of a block",
		[]edit{{
			"engine/schema/zonevalues.go", "min(low, u), max(high, u)", "min(low, u), u",
		}},
		"./engine/schema", "TestDescribedRows",
	},
	{
		"a sharded primary key spreads a partition over its buckets: over half of them",
		[]edit{{
			"engine/schema/row.go", "return x.BucketPK(dst, bucket), nil",
			"return x.BucketPK(dst, bucket&^1), nil",
		}},
		"./engine/table/typed", "TestShardedTables",
	},
	{
		"a check holds for rows that are written: it is not tested",
		[]edit{{
			"engine/table/internal/rowio/writer.go",
			"return own, w.rules.Schema.CheckRow(own)", "return own, nil",
		}},
		"./engine/table", "TestChecksOfWrites",
	},
	{
		"a check that is added holds for earlier rows: they are not looked at",
		[]edit{{
			"engine/table/check.go", "if err := t.CheckRowBy(name, row); err != nil {", noError,
		}},
		"./engine/table", "TestPowerCutsOfAddCheck",
	},
	{
		"a number is not made twice: the end of a range is not stored",
		[]edit{{
			"engine/table/generate.go",
			"if err := q.raise(ctx, db, id, n+1); err != nil {", noError,
		}},
		"./engine/table", "TestPowerCutsOfNumbers",
	},
	{
		"a number that a row has is not made: rows do not raise the end",
		[]edit{{
			"engine/table/write.go",
			"if err := t.core.numbers.pass(ctx, t.db, st.Schema.ID, w.Number()); err != nil {",
			noError,
		}},
		"./engine/table", "TestPowerCutsOfNumbers",
	},
	{
		"writers of several processes prove their definition: commits do not",
		[]edit{{"engine/table/write.go", "		t.db.prove(w.Set(), st)\n", ""}},
		"./engine/table", "TestWritersBehindWriteByThePresentDefinition",
	},
	{
		"readers with the definition before are right: an index is dropped at once",
		[]edit{{
			"engine/table/drop.go", "if err := db.retire(ctx, core, id); err != nil {", noError,
		}},
		"./engine/table", "TestReadersBehindReadTheSame",
	},
	{
		"a request to the console without the token is refused: it is not compared",
		[]edit{{
			"engine/console/guard.go", "subtle.ConstantTimeCompare(got[:], want[:]) == 1",
			"subtle.ConstantTimeCompare(got[:], want[:]) >= 0",
		}},
		"./engine/console", "TestToken",
	},
	{
		"the console shows names as text: one is not escaped",
		[]edit{
			{
				"engine/console/pages.go", "	Name, Version string\n",
				"	Name, Version template.HTML\n",
			},
			{
				"engine/console/pages.go", "v := &view{Name: c.o.Name, Version: c.o.Version,",
				"v := &view{Name: template.HTML(c.o.Name), ",
			},
		},
		"./engine/console", "TestHostileText",
	},
	{
		"a query with AS OF reads its moment: it reads the present",
		[]edit{{"engine/sql/asof.go", "session: Open(then),", "session: s.session,"}},
		"./engine/sql", "TestAsOf",
	},
}
