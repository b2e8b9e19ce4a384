package canary_test

// Modules of stores, and the program with all of them.
const (
	etcdModule     = "./engine/store/etcd"
	tikvModule     = "./engine/store/tikv"
	postgresModule = "./engine/store/postgres"
	cliModule      = "./cmd/kstone-cli/kstone-cli-stores"
)

// storeBugs are planted in stores on other machines, and in what is above them.
var storeBugs = []bug{
	{
		"processes write by one schema: a write set does not prove its version",
		[]edit{{"engine/table/write.go", "		t.db.prove(w.Set(), st)\n", ""}},
		"./engine/table", "TestWritersBehindWriteByThePresentDefinition",
	},
	{
		"unique values are there once: the entry has no condition",
		[]edit{{
			"engine/table/internal/rowio/writer.go",
			"	if e.Unique && !e.Kept {\n		op.Cond = store.Absent()\n",
			"	if e.Unique && !e.Kept {\n		op.Cond = store.Condition{}\n",
		}},
		"./engine/table", "TestUniqueBetweenProcesses",
	},
	{
		"a scan returns all items: a page begins past a key that follows the last one",
		[]edit{{
			"engine/store/remote/scan.go", "			seg.start = append(slices.Clip(last), 0)",
			"			seg.start = append(slices.Clip(last), 1)",
		}},
		"./engine/store/remote", "TestStore",
	},
	{
		"a scan reads ahead one wave at a time: it does not look whether there is one",
		[]edit{{
			"engine/store/remote/ahead.go", "	case s.ahead.wave != nil, s.err != nil,",
			"	case s.err != nil,",
		}},
		"./engine/store/remote", "TestScanReadsAhead",
	},
	{
		"nothing of a scan is left: the wave under way is not waited for",
		[]edit{{
			"engine/store/remote/ahead.go", "	cancel()\n	a.arrived()\n", "	cancel()\n",
		}},
		"./engine/store/remote", "TestEndOfScan.*",
	},
	{
		"a commit on etcd checks all conditions: half of them are not sent",
		[]edit{{
			"engine/store/etcd/commit.go", "If(compare...)", "If(compare[:len(compare)/2]...)",
		}},
		etcdModule, "TestStore",
	},
	{
		"an outcome that is unknown is one: etcd calls it a conflict",
		[]edit{{
			"engine/store/etcd/commit.go", `"%w: %w", store.ErrUnknown, failed)`,
			`"%w: %w", store.ErrConflict, failed)`,
		}},
		etcdModule, "TestUnknownOutcome",
	},
	{
		"a snapshot of etcd stays: it reads at the newest revision",
		[]edit{{
			"engine/store/etcd/store.go", "return s.Of(&view{s: s, rev: rev}), nil",
			"return s.Of(&view{s: s, rev: 0 * rev}), nil",
		}},
		etcdModule, "TestStore",
	},
	{
		"a scan of etcd is of one moment: the first answer does not fix the revision",
		[]edit{{
			"engine/store/etcd/view.go", "		if v.rev == 0 {",
			"		if v.rev == 0 && rev < 0 {",
		}},
		etcdModule, "TestStore",
	},
	{
		"TiKV checks conditions on keys that are not written: they are not locked",
		[]edit{{
			"engine/store/tikv/commit.go", "	if len(locks) == 0 {", "	if len(locks) >= 0 {",
		}},
		tikvModule, "TestStore",
	},
	{
		"a first read without a timestamp is checked: what has changed is not looked at",
		[]edit{{
			"engine/store/tikv/late.go", "	case !same:", "	case !same && failed != nil:",
		}},
		tikvModule, "TestFirstReads.*",
	},
	{
		"an outcome that is unknown is one: TiKV's client has an answer always",
		[]edit{{
			"engine/store/tikv/commit.go", "	case tikverr.IsErrorUndetermined(err):\n",
			"	case tikverr.IsErrorUndetermined(err):\n" +
				"		return s.failure(ctx, \"commit\", err)\n",
		}},
		tikvModule, "TestUnknown",
	},
	{
		"whole partitions are removed and no others: the end of the range is left out",
		[]edit{{
			"engine/store/postgres/open.go", "WHERE k >= a AND k < b",
			"WHERE k >= a AND b IS NOT NULL",
		}},
		postgresModule, "TestDeletePartitions",
	},
	{
		"nothing is written twice: PostgreSQL sends a commit again whose answer was lost",
		[]edit{{
			"engine/store/remote/tx.go",
			"attempts == 0 || !errors.Is(err, store.ErrConflict) {",
			"attempts == 0 || !errors.Is(err, store.ErrConflict) && " +
				"!errors.Is(err, store.ErrUnknown) {",
		}},
		postgresModule, "TestUnknownOutcome",
	},
	{
		"copy brings over what differs: a row that is there is taken for the same",
		[]edit{{
			"cmd/kstone-cli/internal/bulk/target.go", "		same[i] = bytes.Equal(have, want)",
			"		same[i] = bytes.Equal(have, want) || len(have) > 0",
		}},
		cliModule, "TestCommandsOverStores",
	},
	{
		"Repair reports what is lost: without an index, values apart are not counted",
		[]edit{{
			"sst/salvage.go", "s.apart = append(s.apart, gone)", "s.Lost = append(s.Lost, gone)",
		}},
		"./engine", "TestRepairOfSeveralDamagedFiles",
	},
	{
		"Repair reports what is lost: a file of a copy is taken for the database's own",
		[]edit{{"sst/salvage.go", "	if known == nil {", "	if true {"}},
		"./engine", "TestRepairLeavesOutFilesOfACopy",
	},
}
