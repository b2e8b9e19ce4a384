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

// bugs are chosen to be small and easily made: a line forgotten, a case not thought of.
var bugs = []bug{
	{
		"acknowledged at Sync survives a power cut: the commit does not wait",
		[]edit{{"engine/write.go", "	if d == Sync {\n", "	if d == Sync && seq == 0 {\n"}},
		"./engine", "TestPowerCutsOfTheWholeEngine",
	},
	{
		"acknowledged at Sync survives a power cut: the log is not synced",
		[]edit{{"wal/sync.go", "if err := s.file.Sync(); err != nil {", noError}},
		"./engine", "TestPowerCutsOfTheWholeEngine",
	},
	{
		"a failed sync is final: it is tried again",
		[]edit{{
			"wal/sync.go", "if err := s.file.Sync(); err != nil {",
			"if err := s.file.Sync(); err != nil && s.file.Sync() != nil {",
		}},
		"./engine", "TestSyncThatFailsOnceIsFinal",
	},
	{
		"a power cut leaves a prefix: a flush does not sync the log first",
		[]edit{{"engine/flush.go", "if err := db.log.Sync(upTo); err != nil {", noError}},
		"./engine", "TestPowerCutsOfTheWholeEngine",
	},
	{
		"new files survive a power cut: their directory is not synced",
		[]edit{{"engine/flush.go", "return db.fs.SyncDir(db.dir)", "return nil"}},
		"./engine", "TestPowerCutsOfTheWholeEngine",
	},
	{
		"the manifest survives a power cut: an edit is not synced",
		[]edit{{
			"internal/manifest/log.go",
			"	if err := l.file.Sync(); err != nil {\n		return l.fail(fmt.Errorf(\"sync %s",
			"	" + noError + "\n		return l.fail(fmt.Errorf(\"sync %s",
		}},
		"./internal/manifest", "TestPowerCutAnywhere",
	},
	{
		"records read back are not trusted to be durable: they are not written again",
		[]edit{{
			"wal/log.go", "if err := s.rewrite(l.o.FS); err != nil {", noError,
		}},
		"./wal", "TestOpenRewritesWhatMayNotBeDurable",
	},
	{
		"nothing acknowledged is lost by a kill: recovery forgets a stripe",
		[]edit{{
			"engine/replay.go", "if seq <= r.flushed[o.stripe] {",
			"if seq <= r.flushed[o.stripe] || o.stripe == 77 {",
		}},
		"./engine", "TestKilledWriterLosesNothing",
	},
	{
		"nothing acknowledged is lost by a kill: a flush releases the log of other stripes",
		[]edit{{"engine/flush.go", "needed = min(needed, low)", "_ = low"}},
		"./internal/torture", "TestTorture",
	},
	{
		"snapshots see whole batches: a batch is published before it is in the memtables",
		[]edit{
			{
				"engine/write.go", "	horizon := db.snaps.horizon()\n	var grown int64\n",
				"	if len(b.ops) > 1 {\n		db.visible.publish(seq)\n	}\n" +
					"	horizon := db.snaps.horizon()\n	var grown int64\n",
			},
			{
				"engine/write.go", "	db.visible.publish(seq)\n	db.metrics.commit(",
				"	if ops == 1 {\n		db.visible.publish(seq)\n	}\n	db.metrics.commit(",
			},
		},
		"./engine", "TestBatchesAreSeenWhole",
	},
	{
		"transactions are serializable: what a query has read is not checked",
		[]edit{{
			"engine/tx.go", "	for _, r := range tx.spans {\n		key, seq, err",
			"	for _, r := range tx.spans[:0] {\n		key, seq, err",
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
			"engine/flush.go", "return stripe.Retention{Snapshots: snaps,",
			"return stripe.Retention{Snapshots: snaps[:0],",
		}},
		"./engine", "TestEngineBehavesLikeASortedMap",
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
		[]edit{{"engine/recycle.go", "info.Links == 1 && ", ""}},
		"./engine", "TestReusedFilesAreNobodyElses",
	},
	{
		"a checkpoint holds what was acknowledged: its log may be released meanwhile",
		[]edit{{"engine/checkpoint.go", "unpin := db.log.Pin()", "unpin := func() {}"}},
		"./engine", "TestCheckpointKeepsItsLog",
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
		"./engine", "TestEngineBehavesLikeASortedMap",
	},
	{
		"repair says what is lost: damaged blocks are left out silently",
		[]edit{{"engine/salvage_write.go", "r.lostBlocks(f, in.Lost)", "_ = f"}},
		"./engine", "TestRepairReadsAroundDamagedBlocks",
	},
	{
		"repair does not bring back what was deleted: gaps of the log are not thought of",
		[]edit{{"engine/salvage_write.go", "r.poorer[id] && r.logWhole && ", "r.poorer[id] && "}},
		"./engine", "TestRepairDoesNotBringBackWhatWasDeleted",
	},
}
