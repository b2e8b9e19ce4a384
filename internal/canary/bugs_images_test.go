package canary_test

// imageBugs are planted in what scans remember of small spans.
var imageBugs = []bug{
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
}
