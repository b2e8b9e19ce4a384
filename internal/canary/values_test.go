package canary_test

// valueBugs are bugs of large values: a second kind of reference, and of file.
var valueBugs = []bug{
	{
		"large values are what was put: a merge takes references for values",
		[]edit{{
			"compaction/merge.go", "	m.out = *e\n",
			"	m.out = *e\n	m.out.Large = false\n",
		}},
		"./engine", "TestLargeValuesLive",
	},
	{
		"large values are what was put: images have them without their values",
		[]edit{{"engine/internal/read/image.go", "if e.Large {", "if false {"}},
		"./engine/sql", "TestLargeValuesOfSmallTables",
	},
	{
		"a value file stays as long as SSTs refer to it: it goes with the second last",
		[]edit{{"stripe/values.go", "if use.ssts > 0 {", "if use.ssts > 1 {"}},
		"./engine", "TestLargeValuesLive",
	},
	{
		"value files survive a power cut: they are not synced",
		[]edit{{
			"stripe/values.go", "	out.files = append(out.files, file)\n", "",
		}},
		suite, "TestPowerCutsOfTheWholeEngine",
	},
	{
		"large values in the cache are those asked for: the place alone decides",
		[]edit{{"sst/value.go", "k != nil && k.h == v.h", "k != nil"}},
		"./sst", "TestLargeValuesInTheCache",
	},
	{
		"a checkpoint has the value files: only SSTs are copied",
		[]edit{{"internal/manifest/state.go", "if seen[v.Num] {", "if !seen[v.Num] {"}},
		"./engine", "TestLargeValuesLive",
	},
	{
		"the manifest names value files: it stays as it was before the first",
		[]edit{{
			"internal/manifest/log.go", "l.isLong() || e.values() && !l.id.values {",
			"l.isLong() {",
		}},
		"./engine", "TestLargeValuesLive",
	},
	{
		"garbage of values is bounded: no value is written again",
		[]edit{{"stripe/values.go", "garbagePercent = 10", "garbagePercent = 100"}},
		"./engine", "TestLargeValuesLive",
	},
	{
		"damage of value files is found: Verify does not read them",
		[]edit{{"sst/verify.go", "	if be.Large {\n", "	if be.Large && v.uses == nil {\n"}},
		"./sst", "TestDamagedValueFile",
	},
	{
		"a damaged value file costs what is damaged: the rest of the SST is not repaired",
		[]edit{{"sst/salvage.go", "			s.lost[string(e.Value)] = true\n", ""}},
		"./engine", "TestRepairOfADamagedValueFile",
	},
	{
		"readers beside the writer keep value files: the writer removes them at once",
		[]edit{{
			"stripe/stripe.go", "		s.env.Obsolete(base.ValueName(s.id, num))\n",
			"		_ = s.env.FS.Remove(s.env.Dir + \"/\" + base.ValueName(s.id, num))\n",
		}},
		"./engine", "TestReaderKeepsValueFiles",
	},
	{
		"reads of keys read no values",
		[]edit{{"stripe/source.go", "if s.bounds.KeysOnly {", "if s.bounds.KeysOnly && i < 0 {"}},
		"./engine", "TestKeysOnlyReadsNoValues",
	},
	{
		"value files are few: small ones stay",
		[]edit{{"stripe/values.go", "maxSmallFiles  = 32", "maxSmallFiles  = 320"}},
		"./engine", "TestSmallValueFilesAreJoined",
	},
	{
		"full value files stay: they count as small",
		[]edit{{
			"stripe/values.go", "return f.FileBytes >= min(smallFileBytes, s.env.FileBytes/2)",
			"return f.FileBytes == 0",
		}},
		"./engine", "TestSmallValueFilesAreJoined",
	},
	{
		"counts read no values: those of several partitions do",
		[]edit{{
			"engine/reader.go", "	g.KeysOnly = g.KeysOnly || yield == nil && g.Filter == nil\n",
			"",
		}},
		"./engine", "TestKeysOnlyReadsNoValues",
	},
	{
		"bytes of large values count: references do",
		[]edit{{
			"sst/writer.go", "w.blockZone.Add(e, valueBytes)",
			"w.blockZone.Add(e, min(valueBytes, len(e.Value)))",
		}},
		"./sst", "TestLargeValuesAreRead",
	},
	{
		"zones know only described values: large ones are not counted",
		[]edit{{"sst/columns.go", "c.items.Len()+large)", "c.items.Len())"}},
		"./engine", "TestPrunedReadings",
	},
	{
		"large values that are read piece by piece stay in order: a bound is that after the batch",
		[]edit{{"stripe/source.go", "	case len(s.rest) > 0:", "	case len(s.rest) > 1<<30:"}},
		"./engine", "TestLargeValuesLive",
	},
}
