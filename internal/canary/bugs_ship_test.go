package canary_test

// shipBugs are planted in what copies a database to another place.
var shipBugs = []bug{
	{
		"what is reported as shipped is there: an object is not looked for after it was put",
		[]edit{{
			"engine/ship/log.go", "	return s.checkPut(ctx, name, int64(len(content)))\n",
			"	return nil\n",
		}},
		"./engine/ship", "TestShipUnderFaults",
	},
	{
		"an object follows the one before: a put that fails is taken for one",
		[]edit{{"engine/ship/log.go", "	case err == nil:\n		s.advance(h)\n",
			"	default:\n		s.advance(h)\n"}},
		"./engine/ship", "TestShipUnderFaults",
	},
	{
		"what is shipped is durable: the log is not synced first",
		[]edit{{
			"engine/ship/log.go", "	if err := s.src.Log.Sync(last); err != nil {",
			"	" + noError,
		}},
		"./engine/ship", "TestShippedIsDurable",
	},
	{
		"a second shipper fences the first: its epoch is not looked at",
		[]edit{{"engine/ship/log.go", "	case err == nil:\n		return ErrFenced\n", ""}},
		"./engine/ship", "TestSecondShipperFencesTheFirst",
	},
	{
		"a second shipper fences the first: its object is taken for one before a gap",
		[]edit{{
			"engine/ship/log.go", "	case h.epoch > s.epoch:\n		return ErrFenced\n", "",
		}},
		"./engine/ship", "TestShipperThatSleptOverAGap",
	},
	{
		"another history is refused: a shipper goes on without a look at its own",
		[]edit{{
			"engine/ship/shipper.go", "	err := s.check(e.seq, e.history)\n",
			"	err := error(nil)\n",
		}},
		"./engine/ship", "TestOtherHistoriesAreRefused",
	},
	{
		"damage at the destination is found: a file of a base is not compared with its hash",
		[]edit{
			{
				"engine/ship/restore.go", "	if got := [32]byte(sum.Sum(nil)); got != f.sum {",
				"	if got := [32]byte(sum.Sum(nil)); n != f.size {",
			},
		},
		"./engine/ship", "TestDamagedObjects",
	},
	{
		"a restore has no gap: objects that do not follow each other are one range",
		[]edit{
			{
				"engine/ship/survey.go",
				"	for n < len(s.chain) && s.chain[n].follows {\n",
				"	for n < len(s.chain) {\n",
			},
			{"engine/ship/restore.go", "e.seq > last+1:", "e.seq > last+1<<40:"},
		},
		"./engine/ship", "TestGap",
	},
	{
		"a merge keeps every commit: it leaves an object out",
		[]edit{{
			"engine/ship/upkeep.go", "		body = append(body, b...)\n",
			"		if i != 1 {\n			body = append(body, b...)\n		}\n",
		}},
		"./engine/ship", "TestLitestream771RetentionRemovesWhatIsNeeded",
	},
	{
		"retention keeps what moments need: the base before them goes",
		[]edit{{
			"engine/ship/upkeep.go", "			oldest = i\n",
			"			oldest = min(i+1, len(found.bases)-1)\n",
		}},
		"./engine/ship", "TestLitestream771RetentionRemovesWhatIsNeeded",
	},
	{
		"retention keeps what moments need: the log up to the last base goes",
		[]edit{{
			"engine/ship/upkeep.go", "		first = min(first, kept[i].slot)\n",
			"		first = max(first, kept[i].slot)\n",
		}},
		"./engine/ship", "TestLitestream771RetentionRemovesWhatIsNeeded",
	},
	{
		"retention keeps what moments need: SSTs of the last base alone stay",
		[]edit{{
			"engine/ship/upkeep.go", "s.removeSSTs(ctx, there, files[oldest:])",
			"s.removeSSTs(ctx, there, files[n-1:])",
		}},
		"./engine/ship", "TestLitestream771RetentionRemovesWhatIsNeeded",
	},
	{
		"a restore to a time has nothing later: it has the next moment",
		[]edit{{
			"engine/ship/restore.go", "e.kind == entryMoment && at <= ms &&",
			"e.kind == entryMoment && at <= ms+999 &&",
		}},
		"./engine/ship", "TestRestoreToATime",
	},
	{
		"silence is an error: a shipper that has shipped once is never late",
		[]edit{{
			"engine/ship/alarm.go", "	if now().Sub(since) > 2*interval {",
			"	if success.IsZero() && now().Sub(since) > 2*interval {",
		}},
		"./engine/ship", "TestLitestream1083StopsWithoutAnError",
	},
	{
		"a follower has no commits of its own: it does not look",
		[]edit{{"engine/ship/follow.go", "	if from != f.last {\n", "	if from < f.last {\n"}},
		"./engine/ship", "TestFollow",
	},
	{
		"a follower replaces no commits of others: it does not look at its mark",
		[]edit{{
			"engine/ship/rebase.go", "c.Position.Version == uint64(last)+1 {",
			"c.Position.Version > min(uint64(last), 0) {",
		}},
		"./engine/ship", "TestFollowerBeginsAgain",
	},
	{
		"a database is shipped beside its writer: a file need not have its name once it is read",
		[]edit{{
			"engine/ship/sst.go", "f.fs.Stat(f.path); serr != nil {",
			"f.fs.Stat(f.path); serr != nil && n < 0 {",
		}},
		"./engine/ship", "TestShipBesideTheWriter",
	},
	{
		"a shipper goes on after the last base: it begins with the first slot if no log is there",
		[]edit{{
			"engine/ship/survey.go", "			s.slot = max(s.slot, h.slot)",
			"			s.slot = max(s.slot, 1)",
		}},
		"./engine/ship", "TestShipperAfterTheLogIsRemoved",
	},
	{
		"a base has nothing that the log does not have: it does not wait for the log",
		[]edit{{
			"engine/ship/base.go", "return s.chained > p.seq ||",
			"return true || s.chained > p.seq ||",
		}},
		"./engine/ship", "TestLateBases",
	},
	{
		"a follower meets no base ahead of the log: the base does not wait for its last commit",
		[]edit{{
			"engine/ship/base.go", "return s.chained > p.seq ||", "return s.chained > 0 ||",
		}},
		"./engine/ship", "TestFollowersMeetNoBaseAheadOfTheLog",
	},
	{
		"histories do not mix: an object of another one is skipped like one from before a gap",
		[]edit{{
			"engine/ship/log.go", "!errors.As(err, &gone) || gone.Other)",
			"!errors.As(err, &gone))",
		}},
		"./engine/ship", "TestShippersMeetOtherHistories",
	},
	{
		"a database is shipped beside its writer: what was shipped before is not looked for",
		[]edit{{
			"engine/ship/log.go",
			"	if err := s.src.Refresh(); err != nil {\n		return err\n	}\n	return",
			"	return",
		}},
		"./engine/ship", "TestShippersBesideTheWriterFollowEachOther",
	},
	{
		"a backup stream beside the writer has what was there: files need not have their names",
		[]edit{{"engine/ship/stream.go", "_, err = src.FS.Stat(path)", "_ = path"}},
		"./engine/ship", "TestBackupBesideTheWriter",
	},
	{
		"a copy beside the writer has what was there: files need not have their names",
		[]edit{{
			"internal/vfs/copy.go", "from.Stat(src); err != nil {",
			"from.Stat(src); err != nil && n < 0 {",
		}},
		"./engine", "TestCopiesBesideTheWriter",
	},
	{
		"a restore to a moment has all before: a commit may come between log and clock",
		[]edit{{
			"engine/ship/log.go", "if last = s.src.Log.LastSeq(); last == before {",
			"if last = before; true {",
		}},
		"./engine/ship", "TestMomentsHaveWhatWasBefore",
	},
	{
		"a follower begins again beside readers: it ends with what they have open",
		[]edit{{
			"engine/ship/rebase.go",
			"		f.o.Logger.Warn(\"close what is replaced\", \"err\", err)\n",
			"		return err\n",
		}},
		"./engine/ship", "TestFollowerBeginsAgainBesideReaders",
	},
	{
		"a restore is not damaged by retention: what is gone with its base is damage",
		[]edit{{"engine/ship/restore.go", "try < maxLooks && err != nil && (", "try < 0 && ("}},
		"./engine/ship", "TestRestoreWhileItsBaseGoes",
	},
	{
		"a follower starts while objects are merged: one that it does not find ends it",
		[]edit{{
			"engine/ship/follow.go", "errors.Is(err, errNotExist) && try < maxLooks; try++ { // m",
			"errors.Is(err, errNotExist) && try < 0; try++ { // m",
		}},
		"./engine/ship", "TestFollowWhileObjectsAreMerged",
	},
	{
		"what is shipped to a directory is durable: nobody syncs what others have left",
		[]edit{{
			"engine/ship/directory.go", "if d.settled.Swap(true) {",
			"if d.settled.Swap(true) || true {",
		}},
		"./engine/ship", "TestObjectsAreDurable",
	},
	{
		"what was reported as shipped is listed: bases are not listed again after the log",
		[]edit{{"engine/ship/survey.go", "	for range maxLooks {", "	for range 1 {"}},
		"./engine/ship", "TestListWhileBasesGo",
	},
	{
		"what is removed late is in no new base: SSTs are named by their content alone",
		[]edit{{
			"engine/ship/sst.go", "f.epoch, f.put = s.epoch, s.placed[sum]",
			"f.epoch, f.put = 0, s.placed[sum]",
		}},
		"./engine/ship", "TestLateDeletes",
	},
	{
		"what is removed late is in no new base: a shipper gives names again that it has removed",
		[]edit{{"engine/ship/upkeep.go", "	clear(s.placed) // see putSST\n", ""}},
		"./engine/ship", "TestLateDeletes",
	},
	{
		"a restore is whole: without its base it ends with the log of the one before a gap",
		[]edit{{"engine/ship/restore.go", "	if to.Version < r.least {\n", "	if false {\n"}},
		"./engine/ship", "TestRestoreWithoutADamagedBase",
	},
	{
		"retention leaves a base that is whole: one that lacks objects takes the place of others",
		[]edit{{
			"engine/ship/upkeep.go", "		} else if old(b) {\n",
			"		}\n		if old(b) {\n",
		}},
		"./engine/ship", "TestLostSST",
	},
	{
		"a base that lacks objects is made again: nobody looks for them",
		[]edit{{"engine/ship/upkeep.go", "s.lost = err != nil; s.lost", "err != nil"}},
		"./engine/ship", "TestLostSST",
	},
	{
		"a destination of a later version is refused: its objects are taken for damaged ones",
		[]edit{{"engine/ship/survey.go", " && !errors.Is(err, corrupt.ErrVersion)\n", "\n"}},
		"./engine/ship", "TestLaterVersion",
	},
}
